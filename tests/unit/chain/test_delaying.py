"""Goal: an x-delayed-message exchange keeps messages back until they are due, in the order of their
times, loses none, and hides where it keeps them. Method: a whole node; time passes when the test
says so.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import ContentMethod, Deliveries, Event, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames, content_header
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import FieldValue, Table
from sluicemq.broker.vhost import VhostEmpty
from sluicemq.metadata.changes import CloseVhost, DeleteRecord
from support.fakes import bystander, drain

from .client import Broker, Client

DELAYED = "x-delayed-message"
HOUR_MS = 3_600_000


def opened(broker: Broker) -> Client:
    client = broker.connect()
    client.open(1)
    return client


def declare(
    client: Client,
    kind: str = "direct",
    durable: bool = True,
    key: str = "k",
    arguments: Table | None = None,
) -> None:
    """Exchange x, bound to queue q."""
    asked: Table = {"x-delayed-type": kind}
    assert client.call(
        1,
        m.ExchangeDeclare("x", DELAYED, durable=durable, arguments=asked),
        m.QueueDeclare("q", durable=durable),
        m.QueueBind("q", "x", key, arguments=arguments or {}),
    ) == [m.ExchangeDeclareOk(), m.QueueDeclareOk("q"), m.QueueBindOk()]


def publish(
    client: Client,
    body: bytes,
    delay: FieldValue = None,
    *,
    key: str = "k",
    persistent: bool = True,
    mandatory: bool = False,
    **more: object,
) -> None:
    headers: Table = {"other": "stays"} if delay is None else {"x-delay": delay, "other": "stays"}
    mode = 2 if persistent else 1
    properties = BasicProperties(headers=headers, delivery_mode=mode, **more)  # type: ignore[arg-type]
    method = m.BasicPublish("x", key, mandatory).frame(1)
    client.send_bytes(method + content_frames(1, properties.encode(), body, 131072))


def pass_ms(broker: Broker, duration_ms: int) -> None:
    """As a real clock would: timers go off in order, and actors run between them."""
    clock = broker.world.clock
    end_ns = clock.time_ns + duration_ms * 10**6
    while due := [timer for timer in clock.timers if timer[0] <= end_ns]:
        timer = min(due, key=lambda each: each[0])
        clock.timers.remove(timer)
        clock.time_ns = max(clock.time_ns, timer[0])
        timer[1].post(timer[2])
        broker.run()
    clock.time_ns = end_ns
    broker.run()


def got(client: Client) -> list[bytes]:
    """All bodies that can be fetched from q."""
    return [content_body(content) for content in contents(client)]


def contents(client: Client) -> list[bytes]:
    found: list[bytes] = []
    while True:
        client.send(1, m.BasicGet("q", no_ack=True))
        (event,) = client.events()
        if not isinstance(event, ContentMethod):
            return found
        found.append(event.content)


def headers_of(content: bytes) -> Table:
    headers = BasicProperties.decode(content_header(content).properties).headers
    assert headers is not None
    return headers


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_comes_when_it_is_due(durable: bool, persistent: bool) -> None:
    broker = Broker()
    client = opened(broker)
    declare(client, durable=durable)
    publish(client, b"late", 5000, persistent=persistent)
    pass_ms(broker, 4999)
    assert got(client) == []
    pass_ms(broker, 1)
    (content,) = contents(client)
    assert content_body(content) == b"late"
    assert headers_of(content) == {"other": "stays", "x-delay": -5000}


def test_it_comes_from_the_exchange_with_its_key_and_properties() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 10, message_id="id", priority=3, expiration="60000")
    pass_ms(broker, 10)
    client.send(1, m.BasicGet("q", no_ack=True))
    (event,) = client.events()
    assert isinstance(event, ContentMethod)
    assert event.method == m.BasicGetOk(1, False, "x", "k", 0)
    properties = BasicProperties.decode(content_header(event.content).properties)
    assert (properties.message_id, properties.priority, properties.expiration) == (
        "id", 3, "60000",
    )  # fmt: skip


@pytest.mark.parametrize(
    "delay", [None, 0, -5, 2**32, 0.5, True, "soon", "-7", "", [], {}, b"\x05", "9" * 30]
)
def test_what_is_no_delay_is_routed_at_once(delay: FieldValue) -> None:
    client = opened(Broker())
    declare(client)
    publish(client, b"now", delay)
    (content,) = contents(client)
    assert headers_of(content).get("x-delay") == delay


@pytest.mark.parametrize("delay", ["300", "+300", 300.9, 300])
def test_text_and_floats_are_delays_too(delay: FieldValue) -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", delay)
    pass_ms(broker, 299)
    assert got(client) == []
    pass_ms(broker, 1)
    (content,) = contents(client)
    assert headers_of(content)["x-delay"] == -300


def test_the_order_is_that_of_the_times() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    for number, delay in enumerate((500, 300, 100, 300, 200)):
        publish(client, b"%d" % number, delay)
    pass_ms(broker, 1000)
    assert got(client) == [b"2", b"4", b"1", b"3", b"0"]


def test_the_order_holds_for_those_that_are_due_together() -> None:
    """When the broker was busy, or its machine asleep, many are due at one look."""
    broker = Broker()
    client = opened(broker)
    declare(client)
    for number in range(100):
        publish(client, b"%d" % number, 1000 - number)
    broker.world.clock.time_ns += 2 * 10**9
    pass_ms(broker, 1000)
    assert got(client) == [b"%d" % number for number in reversed(range(100))]


@pytest.mark.parametrize("size", [10, 5000, 60_000])
def test_many_that_are_due_together_come_once_each(size: int) -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    count = 700
    for number in range(count):
        publish(client, b"%09d" % number + bytes(size - 9), 100 + number % 3)
    pass_ms(broker, 5000)
    assert sorted(int(body[:9]) for body in got(client)) == list(range(count))


@pytest.mark.parametrize(
    ("kind", "binding_key", "key", "arguments"),
    [
        ("fanout", "", "any", None),
        ("topic", "a.#", "a.b.c", None),
        ("headers", "", "", {"x-match": "all", "other": "stays"}),
        ("x-consistent-hash", "1", "any", None),
        ("x-random", "", "any", None),
    ],
)
def test_the_other_types_route_what_is_due(
    kind: str, binding_key: str, key: str, arguments: Table | None
) -> None:
    broker = Broker()
    client = opened(broker)
    declare(client, kind, key=binding_key, arguments=arguments)
    publish(client, b"late", 10, key=key)
    publish(client, b"now", key=key)
    assert got(client) == [b"now"]
    pass_ms(broker, 10)
    assert got(client) == [b"late"]


def test_what_counts_is_who_is_bound_when_it_is_due() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 10)
    client.call(1, m.QueueUnbind("q", "x", "k"))
    client.call(1, m.QueueDeclare("other"), m.QueueBind("other", "x", "k"))
    pass_ms(broker, 10)
    assert got(client) == []
    assert client.call(1, m.QueueDelete("other")) == [m.QueueDeleteOk(1)]


def test_it_is_confirmed_when_it_is_kept_and_not_returned() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client, "direct")
    client.call(1, m.ConfirmSelect())
    publish(client, b"nobody waits", 10, key="unknown", mandatory=True)
    (event,) = client.events()
    assert repr(event).startswith("<sluicemq.amqp.events.Acks")
    pass_ms(broker, 10)
    assert client.events() == []
    assert broker.node.broker.accounted_bytes == 0


def test_a_confirmed_message_outlives_the_broker() -> None:
    """Nothing is closed: what is durable is what a killed process leaves."""
    broker = Broker()
    client = opened(broker)
    declare(client)
    for number in range(5):
        publish(client, b"%d" % number, 1000 * (5 - number))
    publish(client, b"large" * 10_000, 10_000)
    publish(client, b"transient", 1000, persistent=False)
    broker.wait()
    again = Broker(files=broker.world.disk.files.crash())
    again.world.clock.time_ns = broker.world.clock.time_ns + 3 * 10**9
    again.run()
    client = opened(again)
    pass_ms(again, 1)
    assert got(client) == [b"4", b"3", b"2"]
    pass_ms(again, 2000)
    assert got(client) == [b"1", b"0"]
    pass_ms(again, 5000)
    assert got(client) == [b"large" * 10_000]
    assert again.node.broker.accounted_bytes == 0


def test_wherever_the_broker_dies_while_a_message_moves_on_it_is_not_lost() -> None:
    """Killed after each job of the disk in turn, from the time at which the message is due."""
    jobs = 0
    survived = True
    while survived:
        broker = Broker()
        client = opened(broker)
        declare(client)
        publish(client, b"late", 1000)
        publish(client, b"large" * 10_000, 1000)
        broker.wait()
        survived = move_on(broker, jobs)
        again = Broker(files=broker.world.disk.files.crash())
        again.world.clock.time_ns = broker.world.clock.time_ns
        client = opened(again)
        pass_ms(again, 1000)
        assert set(got(client)) == {b"late", b"large" * 10_000}, jobs
        jobs += 1
    assert jobs > 1


def move_on(broker: Broker, jobs: int) -> bool:
    """The time has come; so many jobs are done. False: there were no more."""
    clock = broker.world.clock
    clock.time_ns += 2 * 10**9
    disk = broker.world.disk
    for _ in range(50):
        for timer in [timer for timer in clock.timers if timer[0] <= clock.time_ns]:
            clock.timers.remove(timer)
            timer[1].post(timer[2])
        while broker.node.run(1000):
            pass
        if disk.jobs and not jobs:
            return True
        if disk.jobs:
            disk.finish()
            jobs -= 1
        clock.time_ns += 10**9
    return False


def test_what_a_full_queue_refuses_is_kept_on_disk_and_offered_again() -> None:
    broker = Broker()
    client = opened(broker)
    full: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.call(
        1,
        m.ExchangeDeclare("x", DELAYED, durable=True, arguments={"x-delayed-type": "direct"}),
        m.QueueDeclare("q", durable=True, arguments=full),
        m.QueueBind("q", "x", "k"),
    )
    for number in range(3):
        publish(client, b"%d" % number, 10)
    pass_ms(broker, 10_000)
    broker.wait()
    broker = Broker(files=broker.world.disk.files.crash())
    client = opened(broker)
    pass_ms(broker, 10_000)
    arrived: list[bytes] = []
    for _ in range(6):
        arrived += got(client)
        pass_ms(broker, 10_000)
    assert set(arrived) == {b"0", b"1", b"2"}
    assert len(arrived) <= 4, "what had arrived before may come twice, and no more than that"
    assert broker.node.broker.accounted_bytes == 0


def test_nothing_comes_back_that_was_delivered_before_a_restart() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 1000)
    pass_ms(broker, 1000)
    assert got(client) == [b"late"]
    broker.wait()
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    again.world.clock.time_ns = broker.world.clock.time_ns
    client = opened(again)
    pass_ms(again, HOUR_MS)
    assert got(client) == []


def test_a_deleted_exchange_takes_its_messages_along() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 1000)
    assert client.call(1, m.ExchangeDelete("x")) == [m.ExchangeDeleteOk()]
    broker.wait()
    assert broker.node.broker.accounted_bytes == 0
    declare_again = m.ExchangeDeclare("x", DELAYED, arguments={"x-delayed-type": "direct"})
    client.call(1, declare_again, m.QueueBind("q", "x", "k"))
    pass_ms(broker, 1000)
    assert got(client) == []
    publish(client, b"new", 5)
    pass_ms(broker, 5)
    assert got(client) == [b"new"]


def test_a_deleted_exchange_stays_deleted_after_a_restart() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 1000)
    client.call(1, m.ExchangeDelete("x"))
    broker.wait()
    again = Broker(files=broker.world.disk.files)
    again.run()
    assert not again.node.broker.vhosts["/"].queues.holding
    known = again.node.broker.store.durable_queues
    assert not any("delayed" in queue.title for queue in known.values())


def test_a_deleted_virtual_host_waits_for_them_to_go() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 1000)
    node = broker.node.broker
    vhost = node.vhosts["/"]
    listener = bystander()
    node.agreement.propose(CloseVhost("/"))
    vhost.wait_until_empty(listener)
    broker.wait()
    assert [type(message) for message in drain(listener)] == [VhostEmpty]
    assert not vhost.queues.holding
    assert not node.store.durable_queues
    assert node.accounted_bytes == 0
    node.agreement.propose(DeleteRecord("vhost", "/"))
    assert not node.vhosts


def test_no_client_reaches_the_queue_that_keeps_them() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"late", 10)
    name = "amq.delayed.x"
    for method, code in (
        (m.QueueDeclare(name), 403),
        (m.QueueDeclare(name, passive=True), 404),
        (m.BasicGet(name), 404),
        (m.BasicConsume(name), 404),
        (m.QueuePurge(name), 404),
        (m.QueueBind(name, "amq.direct", "k"), 404),
    ):
        client.open(2)
        (closed,) = client.call(2, method)
        assert isinstance(closed, m.ChannelClose), method
        assert closed.reply_code == code, method
        client.send(2, m.ChannelCloseOk())
    client.call(1, m.QueueDelete(name))
    client.publish(1, name, b"x")
    pass_ms(broker, 10)
    assert got(client) == [b"late"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({}, 406, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, 406, "'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": DELAYED},
            406,
            "'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ({"x-delayed-type": "none"}, 503, "unknown exchange type 'none'"),
        ({"x-delayed-type": ""}, 503, "invalid exchange type ''"),
    ],
)
def test_the_type_must_make_sense(arguments: Table, code: int, text: str) -> None:
    client = opened(Broker())
    (closed,) = client.call(1, m.ExchangeDeclare("x", DELAYED, arguments=arguments))
    assert isinstance(closed, m.ChannelClose | m.ConnectionClose)
    assert closed.reply_code == code
    assert text in closed.reply_text


def test_messages_that_come_through_another_exchange_are_delayed_too() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    client.call(1, m.QueueDeclare("direct"), m.QueueBind("direct", "amq.fanout"))
    client.call(1, m.ExchangeBind("x", "amq.fanout"))
    raw = BasicProperties(headers={"x-delay": 10}).encode()
    client.send_bytes(m.BasicPublish("amq.fanout", "k").frame(1) + content_frames(1, raw, b"b", 0))
    assert got(client) == []
    assert client.call(1, m.QueueDelete("direct")) == [m.QueueDeleteOk(1)]
    pass_ms(broker, 10)
    assert got(client) == [b"b"]


def test_a_transaction_delays_from_its_commit_on() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    client.call(1, m.TxSelect())
    publish(client, b"late", 1000)
    pass_ms(broker, 5000)
    assert client.call(1, m.TxCommit()) == [m.TxCommitOk()]
    pass_ms(broker, 999)
    assert got(client) == []
    pass_ms(broker, 1)
    assert got(client) == [b"late"]


def test_a_consumer_gets_them_as_they_become_due() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    client.call(1, m.BasicConsume("q", "tag", no_ack=True))
    for number in range(3):
        publish(client, b"%d" % number, 1000 * number + 1)
    for number in range(3):
        pass_ms(broker, 1000)
        assert bodies(client.events()) == [b"%d" % number]


def bodies(events: list[Event]) -> list[bytes]:
    assert not any(isinstance(event, MethodFrame) for event in events), events
    runs = [event for event in events if isinstance(event, Deliveries)]
    return [content_body(content) for event in runs for content in event.contents]


def test_a_clock_that_is_set_back_delays_and_one_set_forward_hastens() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    publish(client, b"a", 5000)
    broker.world.clock.time_ns += 4999 * 10**6
    pass_ms(broker, 1)
    assert got(client) == [b"a"]


def test_few_timers_are_under_way() -> None:
    broker = Broker()
    client = opened(broker)
    declare(client)
    before = len(broker.world.clock.timers)
    for number in range(300):
        publish(client, b"x", HOUR_MS - number)
    assert len(broker.world.clock.timers) <= before + 2
    pass_ms(broker, HOUR_MS)
    assert len(got(client)) == 300
