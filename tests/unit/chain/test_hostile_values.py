"""Goal: whatever octets and numbers clients put where the broker looks, it answers, and goes on.

Method: a whole node in a fake world; each value where it once stopped the node, or might have.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import PROTOCOL_HEADER, content_frames
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import FieldValue, Timestamp, encode_table

from .client import Broker, Client

NO_UTF8 = "\udcff\udcfe\udc80"
SURROGATE = "\udced\udca0\udc80"
DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def client(broker: Broker) -> Client:
    client = broker.connect()
    client.open(1)
    return client


def passes(broker: Broker, duration_ms: int) -> None:
    """Time, with all timers that are due by then."""
    clock = broker.world.clock
    clock.time_ns += duration_ms * 10**6
    while due := [timer for timer in clock.timers if timer[0] <= clock.time_ns]:
        clock.timers[:] = [timer for timer in clock.timers if timer[0] > clock.time_ns]
        for _, actor, message in due:
            actor.post(message)
        broker.run()


def is_alive(broker: Broker) -> None:
    """Somebody else is served."""
    other = broker.connect()
    other.open(1)
    assert isinstance(other.call(1, m.QueueDeclare("alive"))[0], m.QueueDeclareOk)


@pytest.mark.parametrize("password", ["\udcff", SURROGATE, b"\xff", ""])
def test_a_login_is_refused(broker: Broker, password: FieldValue) -> None:
    client = Client(broker, 77)
    response = encode_table({"LOGIN": "guest", "PASSWORD": password})[4:]
    client.send_bytes(PROTOCOL_HEADER)
    client.send(0, m.ConnectionStartOk({}, "AMQPLAIN", response, "en_US"))
    is_alive(broker)


QUEUE_ARGUMENTS = (
    "x-queue-mode", "x-queue-type", "x-overflow", "x-max-age", "x-queue-leader-locator",
)  # fmt: skip


@pytest.mark.parametrize("text", [NO_UTF8, SURROGATE])
@pytest.mark.parametrize("argument", QUEUE_ARGUMENTS)
def test_an_argument_that_is_no_word_is_refused(client: Client, argument: str, text: str) -> None:
    (answer,) = client.call(1, m.QueueDeclare("q", arguments={argument: text}))
    assert isinstance(answer, m.ChannelClose)
    assert answer.reply_code == 406
    assert argument in answer.reply_text
    is_alive(client.broker)


@pytest.mark.parametrize("text", [NO_UTF8, SURROGATE])
@pytest.mark.parametrize(
    "argument", ["x-dead-letter-exchange", "x-dead-letter-routing-key", "x-queue-master-locator"]
)
def test_a_name_of_any_octets_is_kept(client: Client, argument: str, text: str) -> None:
    arguments: dict[str, Any] = {"x-dead-letter-exchange": "e", argument: text}
    declare = m.QueueDeclare("q", durable=True, arguments=arguments)
    assert client.call(1, declare) == [m.QueueDeclareOk("q")]
    assert client.call(1, declare) == [m.QueueDeclareOk("q")]
    client.broker.stop()
    again = Broker(files=client.broker.world.disk.files)
    other = again.connect()
    other.open(1)
    assert other.call(1, declare) == [m.QueueDeclareOk("q")]
    (answer,) = other.call(1, m.QueueDeclare("q", durable=True))
    assert isinstance(answer, m.ChannelClose)
    assert answer.reply_text.isprintable()


@pytest.mark.parametrize("text", [NO_UTF8, SURROGATE])
def test_exchanges_take_or_refuse_any_octets(client: Client, text: str) -> None:
    def declare(kind: str, **arguments: Any) -> list[object]:
        asked = {name.replace("_", "-"): value for name, value in arguments.items()}
        said = client.call(1, m.ExchangeDeclare(f"e-{kind}", kind, arguments=asked))
        return [type(each) for each in said]

    assert declare("direct", alternate_exchange=text)[-1] is m.ExchangeDeclareOk
    assert declare("x-consistent-hash", hash_header=text)[-1] is m.ExchangeDeclareOk
    assert declare("x-modulus-hash", hash_property=text)[-1] is m.ExchangeDeclareOk
    assert declare("headers", other=text)[-1] is m.ExchangeDeclareOk


@pytest.mark.parametrize("text", [NO_UTF8, SURROGATE])
@pytest.mark.parametrize(
    ("kind", "argument"),
    [("x-consistent-hash", "hash-property"), ("x-delayed-message", "x-delayed-type")],
)
def test_exchanges_refuse_words_they_do_not_know(
    client: Client, kind: str, argument: str, text: str
) -> None:
    (answer,) = client.call(1, m.ExchangeDeclare("e", kind, arguments={argument: text}))
    assert isinstance(answer, m.ChannelClose | m.ConnectionClose)
    is_alive(client.broker)


@pytest.mark.parametrize(
    "offset",
    [NO_UTF8, SURROGATE, -1, -(2**63), 2**63 - 1, 2**64 - 1, 1.5, float("nan"), float("inf"), True,
     None, [], {}, b"\xff", "99999999999999999999Y", "0Y",
     "9" * 5000 + "Y", Timestamp(2**64 - 1), Timestamp(0)],
)  # fmt: skip
def test_any_offset_of_a_stream_is_answered(client: Client, offset: FieldValue) -> None:
    declare = m.QueueDeclare("s", durable=True, arguments={"x-queue-type": "stream"})
    client.call(1, declare, m.BasicQos(prefetch_count=10))
    said = client.call(1, m.BasicConsume("s", arguments={"x-stream-offset": offset}))
    assert isinstance(said[0], m.BasicConsumeOk | m.ChannelClose | m.ConnectionClose)
    is_alive(client.broker)


@pytest.mark.parametrize(
    "death",
    [
        {"queue": "q", "reason": "expired", "count": -5},
        {"queue": "q", "reason": "expired", "count": 2**63 - 1},
        {"queue": "q", "reason": "expired", "count": NO_UTF8},
        {"queue": NO_UTF8, "reason": SURROGATE},
        {"queue": [], "reason": {}, "count": float("nan")},
        NO_UTF8,
        None,
    ],
)
def test_a_poisoned_message_dies_like_any_other(death: FieldValue) -> None:
    """Before and after a restart: it is confirmed and durable."""
    broker = Broker()
    client = broker.connect()
    client.open(1)
    arguments: dict[str, Any] = {"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": DAY_MS}
    client.call(1, m.QueueDeclare("q", durable=True, arguments=arguments))
    client.call(1, m.QueueDeclare("dead", durable=True), m.QueueBind("dead", "amq.fanout"))
    raw = BasicProperties(delivery_mode=2, headers={"x-death": [death], "CC": [NO_UTF8]}).encode()
    client.publish(1, "q", b"poison", raw=raw)
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    again.world.clock.time_ns = broker.world.clock.time_ns
    passes(again, 2 * DAY_MS)
    other = again.connect()
    other.open(1)
    (got,) = other.call(1, m.BasicGet("dead", no_ack=True))
    assert isinstance(got, m.BasicGetOk)


def test_a_key_too_long_for_a_delivery_is_cut(client: Client) -> None:
    """AMQP carries 255 octets of it; topics are matched with all."""
    arguments: dict[str, Any] = {
        "x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "a." + "\u00e9" * 300,
        "x-message-ttl": 0,
    }  # fmt: skip
    client.call(1, m.QueueDeclare("q", arguments=arguments))
    client.call(1, m.QueueDeclare("dead"), m.QueueBind("dead", "amq.topic", "a.*"))
    client.publish(1, "q", b"x")
    passes(client.broker, 10)
    (got,) = client.call(1, m.BasicGet("dead", no_ack=True))
    assert isinstance(got, m.BasicGetOk)
    assert got.routing_key == "a." + "\u00e9" * 126


def test_a_table_as_full_as_it_may_be_is_found_again() -> None:
    """The virtual host's own queue type is one argument more."""
    broker = Broker()
    broker.do("add_vhost", vhost="v", default_queue_type="classic")
    broker.do("set_permissions", vhost="v", username="guest", configure=".*", write=".*", read=".*")
    client = broker.connect(vhost="v")
    client.open(1)
    declare = m.QueueDeclare("q", durable=True, arguments={f"a{n}": None for n in range(4096)})
    assert client.call(1, declare) == [m.QueueDeclareOk("q")]
    broker.stop()
    again = Broker(files=broker.world.disk.files)
    assert "q" in again.node.broker.vhosts["v"].queues


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), NO_UTF8, b"\xff", Timestamp(2**63)])
def test_lists_and_exports_are_json_that_can_be_imported(client: Client, value: FieldValue) -> None:
    client.call(1, m.QueueDeclare("q", durable=True, arguments={"other": value, NO_UTF8: [value]}))
    (answer,) = client.broker.begin("export_definitions")
    text = answer.rows[0]["file"]
    text.encode()
    assert json.dumps(json.loads(text), allow_nan=False)
    client.broker.do("import_definitions", file=text)
    (answer,) = client.broker.begin("list_queues", columns=["name", "arguments"])
    json.dumps(answer.as_json(), allow_nan=False)


def test_names_in_commands_are_utf8(broker: Broker) -> None:
    for command, arguments in (
        ("add_user", {"username": "\udcff", "password": "x"}),
        ("add_user", {"username": "u", "password": "\ud800"}),
        ("add_vhost", {"vhost": "\ud800"}),
        ("set_policy", {"name": "p", "pattern": "\udcff", "definition": "{}"}),
        ("list_queues", {"vhost": "\ud800"}),
    ):
        (answer,) = broker.begin(command, **arguments)
        assert answer.error
        answer.error.encode()


@pytest.mark.parametrize("depth", [64, 65, 975, 100_000])
def test_what_is_nested_too_deep_is_refused(depth: int) -> None:
    value = "[" * depth + "]" * depth
    broker = Broker()
    document = '{"parameters": [], "x": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
    asked = [
        broker.begin("set_parameter", component="c", name="n", value=value),
        broker.begin("set_global_parameter", name="n", value=value),
        broker.begin("import_definitions", file=document),
    ]
    broker.run()
    told = ["nested more than 64 deep" in answer.error for (answer,) in asked]
    assert told == [depth > 64] * 3
    broker.stop()
    Broker(files=broker.world.disk.files)


def test_what_was_published_untouched_is_untouched(client: Client) -> None:
    """A broker that has no business with a header passes its octets on."""
    headers: dict[str, FieldValue] = {NO_UTF8: [NO_UTF8, {SURROGATE: float("inf")}]}
    raw = BasicProperties(headers=headers, app_id=NO_UTF8).encode()
    client.call(1, m.QueueDeclare("q"))
    client.publish(1, "q", b"x", raw=raw)
    client.send(1, m.BasicGet("q", no_ack=True))
    sent = bytes(client.broker.net.sent[client.number])
    assert content_frames(1, raw, b"x", 131072) in sent
