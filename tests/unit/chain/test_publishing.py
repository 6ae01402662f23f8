"""Goal: where an exchange looks at the content, or a message names further receivers, each message
goes where it should, in order, confirmed once; and the others pay nothing for it.
Method: a whole node without sockets; the same messages in one piece, one by one, and in a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import FieldValue, Table
from sluicemq.chain.channel.channel import Channel
from sluicemq.limits import CHOICES_MAX, REMEMBERED_BYTES_MAX, TRAITS_MAX
from sluicemq.queues.commands import Publish
from support.thorough import examples

from .client import NO_PROPERTIES, PERSISTENT, Broker, Client

QUEUES = ("p", "q", "r")


def client_with(broker: Broker) -> Client:
    """Three queues: all by "amq.direct" with their names; "p" by headers h=1, "q" by any h."""
    client = broker.connect()
    client.open(1)
    for name in QUEUES:
        client.call(1, m.QueueDeclare(queue=name))
        client.call(1, m.QueueBind(queue=name, exchange="amq.direct", routing_key=name))
    for name, value in (("p", 1), ("q", None)):
        client.call(1, m.QueueBind(queue=name, exchange="amq.headers", arguments={"h": value}))
    return client


def channel_of(client: Client) -> Channel:
    return client.reader.channels[1]


def publish(key: str, exchange: str, raw: bytes, body: bytes) -> bytes:
    head = m.BasicPublish(exchange=exchange, routing_key=key).frame(1)
    return head + content_frames(1, raw, body, 131072)


def fetched(client: Client, queue: str) -> list[tuple[bytes, BasicProperties]]:
    """Everything that is ready, by basic.get."""
    found: list[tuple[bytes, BasicProperties]] = []
    while True:
        client.send(1, m.BasicGet(queue=queue, no_ack=True))
        (event,) = client.events()
        if isinstance(event, MethodFrame):
            assert isinstance(event.method, m.BasicGetEmpty)
            return found
        content: bytes = event.content  # type: ignore[attr-defined]
        raw = content[19 : 7 + int.from_bytes(content[3:7])]
        found.append((content_body(content), BasicProperties.decode(raw)))


@dataclass(frozen=True)
class Sent:
    """What a test publishes."""

    exchange: str
    key: str
    h: int | None
    copies: tuple[str, ...]
    blind: tuple[str, ...]
    mode: int
    size: int

    def headers(self) -> dict[str, FieldValue] | None:
        table: dict[str, FieldValue] = {}
        if self.h is not None:
            table["h"] = self.h
        if self.copies:
            table["CC"] = list(self.copies)
        if self.blind:
            table["BCC"] = list(self.blind)
        return table or None

    def properties(self) -> bytes:
        return BasicProperties(headers=self.headers(), delivery_mode=self.mode).encode()

    def queues(self) -> set[str]:
        """The model."""
        keys = {self.key, *self.copies, *self.blind}
        if self.exchange == "amq.headers":
            return {"p": {"p", "q"}, "q": {"q"}, "": set()}[
                "" if self.h is None else "p" if self.h == 1 else "q"
            ]
        return keys & set(QUEUES)


NAMES = st.sampled_from([*QUEUES, "nobody's"])
SOME = st.lists(NAMES, max_size=2).map(tuple)
MESSAGES = st.builds(
    Sent,
    st.sampled_from(["", "amq.direct", "amq.headers", "amq.headers"]),
    NAMES,
    st.sampled_from([None, 1, 2]),
    SOME,
    SOME,
    st.sampled_from([1, 1, 2]),
    st.sampled_from([10, 10, 10, 5000]),
)


def numbered(number: int, sent: Sent) -> bytes:
    return publish(sent.key, sent.exchange, sent.properties(), (b"%d" % number).ljust(sent.size))


def confirmed(client: Client) -> set[int]:
    """The sequence numbers of all confirms that have come."""
    tags: set[int] = set()
    for event in client.events():
        if isinstance(event, Acks):
            tags.update(event.tags)
        else:
            assert isinstance(event, MethodFrame)
            assert isinstance(event.method, m.BasicAck)
            last = event.method.delivery_tag
            tags.update(range(1, last + 1) if event.method.multiple else [last])
    return tags


@examples(30)
@given(st.lists(st.tuples(MESSAGES, st.integers(1, 4)), min_size=1, max_size=8), st.booleans())
def test_each_message_goes_where_the_model_says(
    runs: list[tuple[Sent, int]], in_one_piece: bool
) -> None:
    all_sent = [sent for sent, count in runs for _ in range(count)]
    client = client_with(Broker())
    client.call(1, m.ConfirmSelect())
    pieces = [numbered(number, sent) for number, sent in enumerate(all_sent)]
    for data in [b"".join(pieces)] if in_one_piece else pieces:
        client.send_bytes(data)
    assert confirmed(client) == set(range(1, len(all_sent) + 1))
    for queue in QUEUES:
        found = fetched(client, queue)
        expected = [n for n, sent in enumerate(all_sent) if queue in sent.queues()]
        assert [int(body) for body, _ in found] == expected
        for number, (_, properties) in zip(expected, found, strict=True):
            seen = all_sent[number].headers()
            if seen is not None:
                seen.pop("BCC", None)
            assert properties.headers == seen
            assert properties.delivery_mode == all_sent[number].mode


def test_what_repeats_is_asked_once(asked: list[str]) -> None:
    client = client_with(Broker())
    plain = publish("p", "amq.direct", NO_PROPERTIES, b"x")
    by_headers = publish("p", "amq.headers", BasicProperties(headers={"h": 1}).encode(), b"x")
    copied = publish("p", "", BasicProperties(headers={"CC": ["q"]}).encode(), b"x")
    for each, questions in ((plain, 1), (by_headers, 2), (copied, 2)):
        asked.clear()
        for _ in range(3):
            client.send_bytes(each * 5)
        assert len(asked) == questions
    client.call(1, m.QueueDeclare(queue="new"))
    asked.clear()
    client.send_bytes(plain + by_headers + copied)
    assert len(asked) == 5


def test_chance_decides_for_each_message() -> None:
    broker = Broker()
    client = client_with(broker)
    numbers = cycle([0, 1, 1])
    broker.world.dice.below = lambda _: next(numbers)  # type: ignore[method-assign, assignment]
    client.call(1, m.ExchangeDeclare(exchange="x", exchange_type="x-random"))
    for name in ("p", "q"):
        client.call(1, m.QueueBind(queue=name, exchange="x"))
    client.send_bytes(b"".join(publish("k", "x", NO_PROPERTIES, b"%d" % n) for n in range(8)))
    # two throws find out that this exchange throws
    assert [body for body, _ in fetched(client, "p")] == [b"1", b"4", b"7"]
    assert [body for body, _ in fetched(client, "q")] == [b"0", b"2", b"3", b"5", b"6"]


BROKEN = b"\x20\x00\x00\x00\x00\x03\x01aZ"
"""Properties with a headers table whose only value is of no type."""


def test_headers_that_cannot_be_decoded_matter_only_when_they_are_read() -> None:
    client = client_with(Broker())
    client.send_bytes(publish("r", "amq.direct", BROKEN, b"unread"))
    assert client.events() == []
    good = BasicProperties(headers={"h": 1}).encode()
    client.send_bytes(
        publish("", "amq.headers", good, b"1") + publish("", "amq.headers", BROKEN, b"2") * 2
    )
    (event,) = client.events()
    assert isinstance(event, MethodFrame)
    assert isinstance(event.method, m.ConnectionClose)
    assert event.method.reply_code == 501
    assert event.method.failed_class_id == 60
    other = client.broker.connect()
    other.open(1)
    assert [body for body, _ in fetched(other, "p")] == [b"1"]


def test_those_before_a_refused_one_go_out() -> None:
    client = client_with(Broker())
    good = BasicProperties(headers={"CC": ["q"]}).encode()
    bad = BasicProperties(headers={"CC": "q"}).encode()
    client.send_bytes(publish("p", "", good, b"1") + publish("p", "", bad, b"2"))
    (closed,) = client.call(1)
    assert isinstance(closed, m.ChannelClose)
    assert closed.reply_text.endswith('{unacceptable_type_in_header,"CC",longstr}')
    client.open(2)
    other = client.broker.connect()
    other.open(1)
    for queue in ("p", "q"):
        assert [body for body, _ in fetched(other, queue)] == [b"1"]


def test_what_is_remembered_is_bounded() -> None:
    client = client_with(Broker())
    look_ups = channel_of(client).publishing.look_ups
    for number in range(max(TRAITS_MAX, CHOICES_MAX) + 10):
        raw = BasicProperties(headers={"h": number}, message_id="m").encode()
        client.post_bytes(publish("", "amq.headers", raw, b""))
    client.broker.run()
    assert len(look_ups.known_properties) <= TRAITS_MAX
    assert len(look_ups.choices) <= CHOICES_MAX
    long = BasicProperties(headers={"h": "x" * REMEMBERED_BYTES_MAX}).encode()
    client.send_bytes(publish("", "amq.headers", long, b""))
    assert long not in look_ups.known_properties
    assert all(raw != long for _, raw in look_ups.choices)


def test_a_queue_of_the_same_name_is_another_queue() -> None:
    client = client_with(Broker())
    by_headers = BasicProperties(headers={"h": 2}).encode()
    some = publish("p", "amq.direct", NO_PROPERTIES, b"x") + publish(
        "", "amq.headers", by_headers, b"y"
    )
    client.send_bytes(some)
    for name in ("p", "q"):
        client.call(1, m.QueueDelete(queue=name))
        client.call(1, m.QueueDeclare(queue=name))
        client.call(1, m.QueueBind(queue=name, exchange="amq.direct", routing_key="p"))
        client.call(1, m.QueueBind(queue=name, exchange="amq.headers", arguments={"h": 2}))
    client.send_bytes(some)
    for name in ("p", "q"):
        assert [body for body, _ in fetched(client, name)] == [b"x", b"y"]


def mixed_keys(count: int, raw: bytes = PERSISTENT, exchange: str = "amq.topic") -> bytes:
    """Messages that differ in routing key and body only."""
    return b"".join(publish(f"k.{n}", exchange, raw, b"%04d" % n) for n in range(count))


def taken(client: Client) -> list[tuple[str, bytes, bool]]:
    """Routing key, body and redelivered of what was delivered."""
    found: list[tuple[str, bytes, bool]] = []
    for event in client.events():
        if isinstance(event, Deliveries):
            bodies = map(content_body, event.contents)
            found += [(event.routing_key, body, event.redelivered) for body in bodies]
    return found


def test_messages_with_keys_of_their_own_are_one_batch_and_keep_their_keys() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q", durable=True), m.ConfirmSelect())
    client.call(1, m.QueueBind(queue="q", exchange="amq.topic", routing_key="k.*"))
    client.send_bytes(mixed_keys(50))
    assert confirmed(client) == set(range(1, 51))
    assert len(broker.node.broker.vhosts["/"].queues["q"].machine.backing.q4.chunks) == 1
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    client = again.connect()
    client.open(1)
    expected = [(f"k.{n}", b"%04d" % n) for n in range(50)]
    client.send(1, m.BasicConsume(queue="q"))
    assert taken(client) == [(*each, False) for each in expected]
    client.send(1, m.BasicNack(delivery_tag=25, multiple=True, requeue=True))
    assert taken(client) == [(*each, True) for each in expected[:25]]
    client.lose()
    other = again.connect()
    other.open(3)
    other.send(3, m.BasicGet(queue="q"))
    (event,) = other.events()
    assert isinstance(event, ContentMethod)
    assert isinstance(event.method, m.BasicGetOk)
    assert (event.method.exchange, event.method.routing_key) == ("amq.topic", "k.0")
    assert (event.method.redelivered, content_body(event.content)) == (True, b"0000")


def counted(count: int, exchange: str = "", key: str = "q") -> bytes:
    """Persistent, with headers that differ in one number."""
    raws = [BasicProperties(delivery_mode=2, headers={"h": n + 1}).encode() for n in range(count)]
    return b"".join(publish(key, exchange, raw, b"%04d" % n) for n, raw in enumerate(raws))


def test_messages_with_numbers_of_their_own_are_one_batch_and_keep_them() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q", durable=True), m.ConfirmSelect())
    client.send_bytes(counted(50))
    assert confirmed(client) == set(range(1, 51))
    assert len(broker.node.broker.vhosts["/"].queues["q"].machine.backing.q4.chunks) == 1
    broker.stop()
    client = Broker(files=broker.world.disk.files).connect()
    client.open(1)
    got = [(body, properties.headers) for body, properties in fetched(client, "q")]
    assert got == [(b"%04d" % n, {"h": n + 1}) for n in range(50)]


def test_messages_with_numbers_of_their_own_are_routed_by_them() -> None:
    client = client_with(Broker())
    client.send_bytes(counted(50, "amq.headers", "any"))
    assert [body for body, _ in fetched(client, "p")] == [b"0000"]
    assert [body for body, _ in fetched(client, "q")] == [b"%04d" % n for n in range(50)]


def test_a_refusal_among_keys_of_their_own_leaves_what_was_before_it() -> None:
    broker = Broker()
    client = client_with(broker)
    client.call(1, m.QueueBind(queue="p", exchange="amq.topic", routing_key="#"))
    client.send_bytes(mixed_keys(3) + publish("k", "nowhere", PERSISTENT, b"nope") + mixed_keys(2))
    (event,) = client.events()
    assert isinstance(event, MethodFrame)
    assert isinstance(event.method, m.ChannelClose)
    assert (event.method.reply_code, event.method.failed_method_id) == (404, 40)
    assert broker.node.broker.vhosts["/"].queues["p"].machine.depth.ready == 3


def test_what_nobody_gets_and_what_two_get_go_alone() -> None:
    client = client_with(Broker())
    client.call(1, m.ConfirmSelect())
    client.call(1, m.QueueBind(queue="p", exchange="amq.topic", routing_key="k.1"))
    client.call(1, m.QueueBind(queue="q", exchange="amq.topic", routing_key="k.*"))
    client.call(1, m.QueueUnbind(queue="q", exchange="amq.topic", routing_key="k.3"))
    client.send_bytes(mixed_keys(3) + publish("nobody", "amq.topic", PERSISTENT, b"0003"))
    assert confirmed(client) == {1, 2, 3, 4}
    assert [body for body, _ in fetched(client, "p")] == [b"0001"]
    assert [body for body, _ in fetched(client, "q")] == [b"0000", b"0001", b"0002"]


def tallied(broker: Broker) -> tuple[int, int]:
    """Confirmed and nacked, of the whole node."""
    counters = broker.node.broker.counters
    return counters.confirmed, counters.nacked


def test_a_confirm_is_counted_when_its_publisher_is_told() -> None:
    """Once a message, whether it went to many queues, to one or to none."""
    broker = Broker()
    client = client_with(broker)
    client.call(1, m.ConfirmSelect())
    for name in QUEUES:
        client.call(1, m.QueueBind(queue=name, exchange="amq.fanout"))
    for number in range(5):
        client.send_bytes(publish("", "amq.fanout", NO_PROPERTIES, b"%d" % number))
    assert len(confirmed(client)) == tallied(broker)[0] == 5
    client.send_bytes(b"".join([publish("nowhere", "", NO_PROPERTIES, b"x")] * 3))
    client.publish(1, "p", *[b"x"] * 4)
    assert tallied(broker) == (12, 0)
    client.send_bytes(publish("p", "amq.direct", PERSISTENT, b"x") * 2)
    broker.wait()
    assert tallied(broker) == (14, 0)
    assert max(confirmed(client)) == 14


def test_what_a_queue_refuses_is_counted_as_nacked() -> None:
    broker = Broker()
    client = client_with(broker)
    client.call(1, m.ConfirmSelect())
    full: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.call(1, m.QueueDeclare(queue="full", arguments=full))
    for name in ("full", *QUEUES):
        client.call(1, m.QueueBind(queue=name, exchange="amq.fanout"))
    client.send_bytes(publish("", "amq.fanout", NO_PROPERTIES, b"x") * 4)
    said = [event.method for event in client.events() if isinstance(event, MethodFrame)]
    nacks = [each for each in said if isinstance(each, m.BasicNack)]
    assert [(each.delivery_tag, each.multiple) for each in nacks] == [
        (2, False),
        (3, False),
        (4, False),
    ]
    assert tallied(broker) == (1, 3)


def test_who_asked_for_no_confirms_is_told_none() -> None:
    """A commit's answer is none either, though the transaction waits for its queues."""
    broker = Broker()
    client = client_with(broker)
    client.publish(1, "p", b"x")
    client.open(2)
    client.call(2, m.TxSelect())
    client.publish(2, "p", b"x")
    assert client.call(2, m.TxCommit()) == [m.TxCommitOk()]
    assert tallied(broker) == (0, 0)


def test_the_client_counts_from_the_method_that_asks_for_confirms() -> None:
    """What it published before has numbers, too, but it does not know them."""
    broker = Broker()
    client = broker.connect()
    client.open(1)
    client.call(1, m.QueueDeclare(queue="q"), m.QueueDeclare(queue="r"))
    client.publish(1, "q", b"1", b"2", b"3")
    client.call(1, m.ConfirmSelect())
    client.publish(1, "r", b"4")
    client.publish(1, "q", b"5")
    assert [tags for e in client.events() if isinstance(e, Acks) for tags in e.tags] == [1, 2]
    assert client.call(1, m.ConfirmSelect()) == [m.ConfirmSelectOk()]
    client.publish(1, "q", b"6")
    assert [tags for e in client.events() if isinstance(e, Acks) for tags in e.tags] == [3]


def test_a_closed_connection_has_published_what_waits_for_a_declaration() -> None:
    broker = Broker()
    client = broker.connect()
    client.open(1)
    declare = m.QueueDeclare(queue="q", durable=True).frame(1)
    head = m.BasicPublish(exchange="", routing_key="q").frame(1)
    publish = head + content_frames(1, NO_PROPERTIES, b"body", 131072)
    client.post_bytes(declare + 3 * publish + m.ConnectionClose(reply_code=200).frame(0))
    while broker.node.run(1000):
        pass
    assert client.events() == [], "the declaration waits for the disk"
    broker.world.disk.finish()
    counts: list[int] = []
    more = True
    while more:
        more = broker.node.run(1)
        said = [event.method for event in client.events() if isinstance(event, MethodFrame)]
        if m.ConnectionCloseOk() in said:
            queue = broker.node.broker.vhosts["/"].queues["q"]
            posted = [each for each in queue.inbox if isinstance(each, Publish)]
            counts.append(sum(len(each.batch.contents) for each in posted))
    assert counts == [3]


def test_bytes_that_come_while_earlier_ones_wait_stay_behind_them() -> None:
    """Bytes of who publishes are taken at once, but not before those of the reader's inbox."""
    client = client_with(Broker())
    message = publish("p", "amq.direct", NO_PROPERTIES, b"a body")
    reader = client.reader
    assert not reader.publishes_now
    client.post_bytes(message[:20])
    reader.publishes_now = True
    client.post_bytes(message[20:])
    client.broker.run()
    client.send_bytes(message)
    assert [body for body, _ in fetched(client, "p")] == [b"a body"] * 2
