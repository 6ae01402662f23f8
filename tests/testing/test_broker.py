"""Goal: a broker for tests is a real one, with a home of its own, and each knob does what its name
says, to clients that others have made.

Method: a broker in a process and one in a thread, which all tests share; pika as the client.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ConnectionClosed,
    NackError,
    ProbableAuthenticationError,
    StreamLostError,
    UnroutableError,
)

from sluicemq.errors import Refused
from sluicemq.testing import Admin, Broker, BrokerFailed
from sluicemq.testing.broker import milliseconds
from support.waiting import await_truth

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module", params=["process", "thread"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(inside=request.param == "thread") as broker:
        yield broker


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    vhost = broker.make_vhost()
    yield Admin(broker, vhost)
    broker.calm()
    broker.drop_vhost(vhost)


@pytest.fixture
def channel(admin: Admin) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(admin.url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def test_a_client_publishes_and_the_test_looks(admin: Admin, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    for body in (b"a", b"b"):
        channel.basic_publish("", "q", body, pika.BasicProperties(message_id="m"))
    admin.wait_until("q", ready=2, seen=2)
    first, second = admin.peek("q", 5)
    assert (first.body, first.properties.message_id, first.routing_key) == (b"a", "m", "q")
    assert (first.redelivered, second.body) == (False, b"b")
    assert admin.bodies("q") == [b"a", b"b"]
    method, _, body = channel.basic_get("q")
    assert body == b"a"
    with pytest.raises(AssertionError, match=r"not acknowledged: {'q': 1}"):
        admin.assert_no_unacknowledged()
    with pytest.raises(AssertionError, match=r"are left .*{'q': \(1, 1\)}"):
        admin.assert_nothing_left("q")
    channel.basic_ack(method.delivery_tag)
    admin.wait_until("q", unacknowledged=0)
    admin.purge("q")
    admin.assert_nothing_left()
    admin.assert_no_unacknowledged()


def test_waiting_in_vain_says_what_there_is(admin: Admin) -> None:
    admin.declare_queue("q")
    admin.publish("q", "x")
    with pytest.raises(AssertionError, match=r"'q' has Counts\(ready=1.*not {'ready': 2}"):
        admin.wait_until("q", ready=2, timeout=0.01)
    with pytest.raises(Refused, match="'nothing' in vhost"):
        admin.wait_until("nothing", ready=2)


def test_routes_are_demanded_without_publishing(broker: Broker, admin: Admin) -> None:
    admin.declare_exchange("events")
    admin.declare_queue("all")
    admin.declare_queue("eu")
    admin.bind_queue("all", "events", "#")
    admin.bind_queue("eu", "events", "*.eu")
    admin.assert_routed("events", "order.eu", ["all", "eu"])
    with pytest.raises(AssertionError, match=r"'order.us' to \['all'\], not to \['eu'\]"):
        admin.assert_routed("events", "order.us", ["eu"])
    admin.assert_nothing_left()
    with pytest.raises(Refused, match="there is no queue for it"):
        admin.publish("nowhere", "x")
    definitions = admin.definitions()
    assert {each["name"] for each in definitions["queues"]} == {"all", "eu"}
    other = Admin(broker, broker.make_vhost())
    other.load(definitions)
    other.assert_routed("events", "order.eu", ["all", "eu"])


def test_virtual_hosts_do_not_see_each_other(broker: Broker, admin: Admin) -> None:
    admin.declare_queue("q")
    other = broker.make_vhost()
    assert Admin(broker, other).queues() == []
    Admin(broker, other).declare_queue("q", durable=False)  # nothing of the other one is in its way
    broker.drop_vhost(other)
    assert [row["name"] for row in admin.queues("name")] == ["q"]


@pytest.mark.parametrize("knob", ["block", "memory_alarm", "disk_full"])
def test_a_client_that_is_blocked_hears_so(admin: Admin, broker: Broker, knob: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(admin.url)) as connection:
        heard: list[str] = []
        connection.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))

        def has_heard(what: list[str]) -> bool:
            connection.process_data_events(0.01)
            return heard == what

        channel = connection.channel()
        channel.queue_declare("q")
        with getattr(broker, knob)():
            channel.basic_publish("", "q", b"x")
            await_truth(lambda: has_heard(["blocked"]))
        await_truth(lambda: has_heard(["blocked", "unblocked"]))


def test_on_a_full_disk_nothing_is_confirmed(admin: Admin, broker: Broker) -> None:
    admin.declare_queue("q")
    full = broker.disk_full()
    with pytest.raises(Refused, match="1 messages are not confirmed"):
        admin.publish("q", "x", wait=0.2)
    full.end()
    admin.wait_until("q", ready=1)
    admin.publish("q", "y")


def test_the_next_messages_are_refused(
    admin: Admin, broker: Broker, channel: BlockingChannel
) -> None:
    admin.declare_queue("q")
    channel.confirm_delivery()
    broker.nack_next(2)
    for _ in range(2):
        with pytest.raises(NackError):
            channel.basic_publish("", "q", b"lost", PERSISTENT)
    channel.basic_publish("", "q", b"kept", PERSISTENT)
    assert admin.bodies("q") == [b"kept"]
    with pytest.raises(UnroutableError):
        channel.basic_publish("", "nowhere", b"x", mandatory=True)


def test_nobody_logs_in(admin: Admin, broker: Broker, channel: BlockingChannel) -> None:
    with broker.refuse_logins(), pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(admin.url))
    channel.queue_declare("q")  # who was there has stayed
    pika.BlockingConnection(pika.URLParameters(admin.url)).close()


def test_clients_are_cut_off(broker: Broker, channel: BlockingChannel) -> None:
    assert broker.drop_connections() >= 1
    with pytest.raises((StreamLostError, ConnectionClosed)):
        channel.queue_declare("q")


def test_answers_are_late(broker: Broker, channel: BlockingChannel) -> None:
    broker.delay(300)
    began = time.monotonic()
    channel.queue_declare("q")
    assert time.monotonic() - began >= 0.3
    broker.delay(0)
    channel.queue_declare("q2")  # and still in order


def test_what_is_late_is_bounded(admin: Admin, broker: Broker, channel: BlockingChannel) -> None:
    """A consumer without a prefetch gets all there is, but not into the broker's memory."""
    admin.declare_queue("q")
    admin.publish("q", *(b"%d" % number + b"x" * 100_000 for number in range(60)))
    broker.delay(200)
    found = []
    for method, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=240):
        assert method is not None, f"nothing comes behind message {len(found)}"
        found.append(int(body.rstrip(b"x")))
        if len(found) == 60:
            break
    assert found == [*range(60)]


def test_time_is_moved(broker: Broker, admin: Admin) -> None:
    admin.declare_queue("dead")
    arguments = {
        "x-message-ttl": 600_000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    admin.declare_queue("q", arguments=arguments)
    admin.declare_queue("passing", arguments={"x-expires": 3_600_000})
    admin.publish("q", "x")
    broker.advance("9m")
    assert admin.counts("q").ready == 1
    broker.advance("2m")
    admin.wait_until("dead", ready=1)
    assert admin.counts("q").ready == 0
    broker.advance("1h")
    await_truth(lambda: {row["name"] for row in admin.queues("name")} == {"q", "dead"})


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_what_is_durable_is_there_in_the_next_life(broker: Broker, admin: Admin, how: str) -> None:
    admin.declare_queue("durable")
    admin.declare_queue("transient", durable=False)
    admin.publish("durable", "kept")
    url = admin.url
    getattr(broker, how)()
    assert admin.url == url
    assert admin.bodies("durable") == [b"kept"]
    assert [row["name"] for row in admin.queues("name")] == ["durable"]


@pytest.mark.parametrize("inside", [False, True])
def test_in_a_directory_things_stay(tmp_path: Path, inside: bool) -> None:
    with Broker(directory=tmp_path, inside=inside) as broker:
        broker.admin.declare_queue("q")
        broker.admin.publish("q", "kept")
        broker.kill()
        assert broker.admin.bodies("q") == [b"kept"]
    with Broker(directory=tmp_path) as broker:
        assert broker.admin.bodies("q") == [b"kept"]
        with (
            pytest.raises(BrokerFailed, match="another broker uses it"),
            Broker(directory=tmp_path),
        ):
            pass


def test_in_memory_no_file_is_touched(broker: Broker, admin: Admin) -> None:
    admin.declare_queue("q")
    admin.publish("q", "x" * 100_000)
    status = broker.ask("status")[0]
    assert status["Disk"]["data_dir"] == "none"
    assert not [*Path(os.environ.get("TMPDIR", "/tmp")).glob(f"sluicemq-*{broker.port}/*")]


def test_an_option_that_cannot_be_is_named() -> None:
    with (
        pytest.raises(BrokerFailed, match="max_message_size"),
        Broker(options={"max_message_size": "much"}),
    ):
        pass
    with (
        pytest.raises(Refused, match="nothing is not an option"),
        Broker(inside=True, options={"nothing": 1}),
    ):
        pass


@pytest.mark.parametrize(
    ("span", "ms"), [(1.5, 1500), ("10m", 600_000), ("1h 30m", 5_400_000), ("250ms", 250)]
)
def test_times_are_read(span: float | str, ms: int) -> None:
    assert milliseconds(span) == ms


@pytest.mark.parametrize("span", ["", "10", "m", "-1s", "1y"])
def test_what_is_no_time_is_refused(span: str) -> None:
    with pytest.raises(Refused, match="is no time"):
        milliseconds(span)
