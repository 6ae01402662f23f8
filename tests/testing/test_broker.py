"""Goal: a broker for tests is a real one, with a home of its own, and each knob does what its name
says, to clients that others have made.

Method: a broker in a process and one in a thread, which all tests share; pika as the client.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosed,
    NackError,
    ProbableAuthenticationError,
    StreamLostError,
    UnroutableError,
)

from sluicemq.errors import Refused
from sluicemq.testing import Admin, Broker, BrokerFailed
from sluicemq.testing.broker import milliseconds
from sluicemq.testing.housing import OwnProcess
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
    assert (body, method.redelivered) == (b"a", False)  # nobody has noticed the looks
    with pytest.raises(AssertionError, match=r"not acknowledged: {'q': 1}"):
        admin.assert_no_unacknowledged()
    with pytest.raises(AssertionError, match=r"are left .*{'q': \(1, 1\)}"):
        admin.assert_nothing_left("q")
    channel.basic_ack(method.delivery_tag)
    admin.wait_until("q", unacknowledged=0)
    admin.purge("q")
    admin.assert_nothing_left()
    admin.assert_no_unacknowledged()


QUEUES: dict[str, dict[str, object]] = {
    "classic": {"x-delivery-limit": 5},
    "quorum": {"x-queue-type": "quorum"},
    "priorities": {"x-max-priority": 3},
}


@pytest.mark.parametrize("kind", QUEUES)
def test_a_look_shows_what_a_consumer_would_get(
    admin: Admin, channel: BlockingChannel, kind: str
) -> None:
    channel.queue_declare("q", durable=True, arguments=QUEUES[kind])
    channel.exchange_declare("logs", "fanout")
    channel.queue_bind("q", "logs")
    channel.confirm_delivery()
    for number, (exchange, body) in enumerate([("logs", b"a"), ("", b"b"), ("logs", b"c" * 9000)]):
        properties = pika.BasicProperties(headers={"n": number}, priority=1)
        channel.basic_publish(exchange, "q", body, properties)
    method, _, _ = channel.basic_get("q")
    channel.basic_nack(method.delivery_tag)
    admin.wait_until("q", ready=3)
    channel.basic_publish("", "q", b"urgent", pika.BasicProperties(priority=3))
    looks = admin.peek("q", 10)
    assert looks == admin.peek("q", 10)
    got = [channel.basic_get("q", auto_ack=True) for _ in range(4)]
    assert channel.basic_get("q")[0] is None
    for look, (method, properties, body) in zip(looks, got, strict=True):
        assert (look.body, look.redelivered) == (body, method.redelivered)
        assert (look.exchange, look.routing_key) == (method.exchange, method.routing_key)
        headers = properties.headers or {}
        if method.redelivered or kind != "quorum":  # to a get it shows a count of 0, too
            assert (look.properties.headers or {}) == headers
        assert look.properties.priority == properties.priority
    assert [look.redelivered for look in looks].count(True) == 1


def test_what_is_on_the_disk_is_got_and_put_back(admin: Admin) -> None:
    admin.declare_queue("q", arguments={"x-queue-mode": "lazy"})
    admin.publish("q", "a", "b")
    assert admin.look("q", 2) is None
    assert admin.bodies("q") == [b"a", b"b"]
    admin.wait_until("q", ready=2)


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


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_the_next_messages_are_refused(
    admin: Admin, broker: Broker, channel: BlockingChannel, kind: str
) -> None:
    admin.declare_queue("q", arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    broker.nack_next(2)
    for _ in range(2):
        with pytest.raises(NackError):
            channel.basic_publish("", "q", b"lost", PERSISTENT)
    channel.basic_publish("", "q", b"kept", PERSISTENT)
    admin.wait_until("q", ready=1, seen=3)
    with pytest.raises(UnroutableError):
        channel.basic_publish("", "nowhere", b"x", mandatory=True)
    broker.nack_next(5)
    broker.nack_next(0)
    channel.basic_publish("", "q", b"kept, too", PERSISTENT)


def test_of_one_packet_the_last_messages_are_refused(admin: Admin, broker: Broker) -> None:
    admin.declare_queue("q")
    broker.nack_next(2)
    with pytest.raises(Refused, match=r"has refused it \(basic.nack\)"):
        admin.publish("q", "a", "b", "c")
    admin.publish("q", "d")
    assert len(admin.bodies("q")) == 2
    admin.wait_until("q", seen=4)


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


def test_time_is_moved_for_what_is_delayed(
    broker: Broker, admin: Admin, channel: BlockingChannel
) -> None:
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    admin.declare_queue("q")
    channel.queue_bind("q", "later")
    channel.confirm_delivery()
    channel.basic_publish("later", "", b"x", pika.BasicProperties(headers={"x-delay": 3_600_000}))
    broker.advance("59m")
    assert admin.counts("q").ready == 0
    broker.advance("2m")
    admin.wait_until("q", ready=1)


def test_time_is_moved_for_clients_that_do_nothing(
    broker: Broker, admin: Admin, channel: BlockingChannel
) -> None:
    """A consumer that does not acknowledge, and a client that sends no heartbeats."""
    admin.declare_queue("q")
    admin.publish("q", "x")
    channel.basic_get("q")
    admin.wait_until("q", unacknowledged=1)
    silent = pika.BlockingConnection(pika.URLParameters(f"{admin.url}?heartbeat=600"))
    broker.advance("10m")
    assert admin.counts("q").unacknowledged == 1
    broker.advance("25m")
    with pytest.raises(ChannelClosedByBroker, match="delivery acknowledgement on channel 1 timed"):
        channel.queue_declare("q", passive=True)
    admin.wait_until("q", ready=1)
    with pytest.raises((StreamLostError, ConnectionClosed)):
        silent.channel()


def test_a_broker_is_small() -> None:
    with Broker() as broker:
        process = broker.housing
        assert isinstance(process, OwnProcess)
        status = Path(f"/proc/{process.pid}/status").read_text()
    resident = re.search(r"VmRSS:\s+([0-9]+) kB", status)
    assert resident is not None
    assert int(resident[1]) <= 40 * 1024


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
    with pytest.raises(Refused, match="is not a time"):
        milliseconds(span)


ABANDONED = """
import os
from sluicemq.testing import Broker
broker = Broker()
broker.start()
print(broker.housing.pid, flush=True)
os._exit(0)
"""


def test_a_broker_ends_with_the_tests_however_they_end() -> None:
    said = subprocess.check_output([sys.executable, "-c", ABANDONED], text=True)
    broker = Path("/proc", str(int(said)))
    await_truth(lambda: not broker.exists())
