"""A whole broker, and two clients that do anything: legal, illegal, broken off.

The input is a row of decisions (`choices.py`): which client does what, with which of a few names
and values. The broker runs in a fake world, so time passes when the input says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import ContentMethod, Event, MethodFrame
from sluicemq.amqp.frames import END, METHOD, PROTOCOL_HEADER, content_frames, frame_end
from sluicemq.amqp.method import Method
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import Timestamp
from sluicemq.config import Config, StorageConfig
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Closed, Received
from targets import method as method_target
from targets.choices import Choices
from targets.target import Target
from unit.chain.client import Broker
from wire.streams import frame, header

SMALL_FILES: Final = StorageConfig(
    reserve_bytes=0, journal_file_size_limit=1 << 16, msg_store_file_size_limit=1 << 16
)
"""The files of these worlds are in memory."""
STEPS_MAX: Final = 60
FRAME_MAX: Final = 4096
QUEUES: Final = ("q1", "q2", "", "durable", "exclusive", "none", "amq.rabbitmq.reply-to", "amq.q")
EXCHANGES: Final = (
    "", "x1", "x2", "amq.direct", "amq.topic", "amq.fanout", "amq.headers", "none", "amq.default",
)  # fmt: skip
KEYS: Final = ("q1", "q2", "", "a.b", "a.*", "#", "durable", "exclusive", "*.#.b", "none")
TYPES: Final = (
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random",
    "x-delayed-message", "none",
)  # fmt: skip
ARGUMENTS: Final = (
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority", "x-queue-type",
    "x-single-active-consumer", "x-queue-mode", "x-priority", "x-cancel-on-ha-failover",
    "alternate-exchange", "x-match", "hash-header", "hash-property", "x-delayed-type",
    "x-stream-offset", "x-max-age", "x-delivery-limit", "other",
)  # fmt: skip
HEADERS: Final = ("CC", "BCC", "x-delay", "x-death", "x-match", "other")
VALUES: Final[tuple[object, ...]] = (
    1, 0, -1, 10, 1000, 2**40, True, 1.5, None, "all", "any", "q1", "x1", "drop-head", "direct",
    "reject-publish", "reject-publish-dlx", "lazy", "stream", "quorum", "classic", "first",
    "fanout", "", b"\xff", [], ["q1"], ["a.b", "q2"], {}, {"a": [{}]}, Timestamp(2**63), "5", "1h",
    "\udcff",
)  # fmt: skip
SIZES: Final = (0, 1, 100, 4088, 5000, 20_000)
PASSED_MS: Final = (1, 50, 1100, 61_000)
ANSWERS_OF_CLIENTS: Final = (m.ConnectionStartOk, m.ConnectionTuneOk, m.ChannelCloseOk)
SENT_BY_CLIENTS: Final = [
    made for made in m.ALL_METHODS if not made.NAME.endswith("-ok") or made in ANSWERS_OF_CLIENTS
]
FILLED: Final = {
    made: list(inspect.signature(made.__init__).parameters.values())[1:] if made.FIELDS else []
    for made in m.ALL_METHODS
}


def text_for(name: str, choices: Choices) -> str:
    """A word for the field of that name."""
    if name in ("exchange", "source", "destination"):
        return choices.pick(EXCHANGES)
    if name == "queue":
        return choices.pick(QUEUES)
    if name == "routing_key":
        return choices.pick(KEYS)
    if name == "exchange_type":
        return choices.pick(TYPES)
    if name == "mechanism":
        return choices.pick(("PLAIN", "AMQPLAIN", "EXTERNAL"))
    if name == "virtual_host":
        return choices.pick(("/", "none"))
    return choices.pick(("t1", "t2", "", "x" * 255))


def table_for(choices: Choices, names: tuple[str, ...]) -> dict[str, Any]:
    """A few arguments or headers."""
    return {choices.pick(names): choices.pick(VALUES) for _ in range(choices.below(4))}


def method_for(made: type[Method], choices: Choices) -> Method:
    """A method with fields as the input says."""
    fields: dict[str, Any] = {}
    for field in FILLED[made]:
        kind = str(field.annotation)
        if kind == "bool":
            fields[field.name] = choices.flag()
        elif kind == "int":
            number = choices.pick((1, 2, 0, 3, 5, 4096, 0xFFFF))
            fields[field.name] = number & 255 if field.name.startswith("version") else number
        elif kind == "str":
            fields[field.name] = text_for(field.name, choices)
        elif kind == "bytes":
            fields[field.name] = choices.pick((b"\0guest\0guest", b"", b"\0", b"\xff" * 9))
        else:
            fields[field.name] = table_for(choices, ARGUMENTS)
    return made(**fields)


def properties_for(choices: Choices) -> bytes:
    """Of a message: none, plain ones, or any."""
    kind = choices.below(4)
    if kind == 0:
        return b"\0\0"
    if kind == 1:
        return BasicProperties(delivery_mode=2).encode()
    return BasicProperties(
        delivery_mode=choices.pick((None, 1, 2, 9)),
        priority=choices.pick((None, 0, 3, 255)),
        expiration=choices.pick((None, None, "0", "50", "soon", "-1", "9" * 20)),
        reply_to=choices.pick((None, "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x", "q1")),
        user_id=choices.pick((None, None, "guest", "other")),
        headers=table_for(choices, HEADERS) if choices.flag() else None,
    ).encode()


class Conversation:
    """One client's socket; what the broker says is read as it comes, and must be flawless."""

    def __init__(self, broker: Broker) -> None:
        broker.clients += 1
        self.broker = broker
        self.number = broker.clients
        peer = Peer("127.0.0.1", 1000 + self.number, "127.0.0.1", 5672)
        assert broker.node.admits(peer.peer_host)
        self.reader = broker.node.accept(self.number, peer)
        self.amqp = AmqpConnection(CLIENT)
        self.queues: set[str] = set()
        """All that it has declared."""

    def send(self, data: bytes) -> None:
        self.reader.post(Received(data))

    def log_in(self) -> None:
        """With channels 1 and 2 open."""
        hello: list[Method] = [
            m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"),
            m.ConnectionTuneOk(5, FRAME_MAX, 0),
            m.ConnectionOpen("/"),
        ]
        self.send(PROTOCOL_HEADER + b"".join([method.frame(0) for method in hello]))
        self.send(m.ChannelOpen().frame(1) + m.ChannelOpen().frame(2))

    def listen(self) -> list[Event]:
        """What was said since the last time."""
        sent = self.broker.net.sent.get(self.number, bytearray())
        data = bytes(sent)
        sent.clear()
        if data[:4] != b"AMQP":
            check_frames(data)
        self.amqp.receive_data(data)
        events: list[Event] = []
        while (event := self.amqp.next_event()) is not None:
            events.append(event)
            if isinstance(event, MethodFrame) and isinstance(event.method, m.QueueDeclareOk):
                self.queues.add(event.method.queue)
        return events

    def ask(self, *some: Method) -> list[Method]:
        """On channel 1; all methods that come back."""
        self.send(b"".join([method.frame(1) for method in some]))
        self.broker.run()
        events = self.listen()
        return [event.method for event in events if isinstance(event, MethodFrame | ContentMethod)]

    def lose(self) -> None:
        """The socket breaks."""
        self.reader.post(Closed("gone"))


def check_frames(data: bytes) -> None:
    """pamqp takes every method that the broker sends, and no frame is above what was negotiated.
    Headers are the clients' own, and pass as they came."""
    pos = 0
    while pos < len(data):
        end = frame_end(data, pos)
        assert end - pos <= FRAME_MAX or data[pos] == METHOD, "larger than frame_max"
        assert data[end - 1] == END
        if data[pos] == METHOD:
            method = method_target.decode(data[pos + 7 : end - 1])
            assert method is not None, "the broker's own method cannot be decoded"
            method_target.agree(method)
        pos = end
    assert pos == len(data), "half a frame was sent"


class Session:
    """The broker and its two clients; `step` does what the input says next."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.broker = Broker(Config(storage=SMALL_FILES))
        self.clients = [Conversation(self.broker), Conversation(self.broker)]
        self.queues = set(QUEUES[:2])
        if choices.below(8):
            for client in self.clients:
                client.log_in()
        self.acts: tuple[Callable[[Conversation], None], ...] = (
            *(self.do_method,) * 6, *(self.do_publish,) * 5, self.do_settle, self.do_settle,
            self.do_raw, self.do_broken_content, self.do_wait, self.do_replace,
        )  # fmt: skip

    def play(self) -> None:
        """All of the input, at most STEPS_MAX steps of it."""
        for _ in range(STEPS_MAX):
            if not self.choices:
                return
            which = self.choices.octet()
            self.choices.pick(self.acts)(self.clients[which & 1])
            if which & 6:
                self.settle()

    def settle(self) -> None:
        """Everything that was posted is done and read."""
        self.broker.run()
        for client in self.clients:
            client.listen()

    def channel(self) -> int:
        return self.choices.pick((1, 1, 2, 1, 1, 0, 3))

    def do_method(self, client: Conversation) -> None:
        made = self.choices.pick(SENT_BY_CLIENTS if self.choices.octet() % 16 else m.ALL_METHODS)
        number = 0 if made.class_id == 10 and self.choices.below(8) else self.channel()
        client.send(method_for(made, self.choices).frame(number))

    def do_publish(self, client: Conversation) -> None:
        choices = self.choices
        number = choices.pick((1, 1, 2))
        method = method_for(m.BasicPublish, choices).frame(number)
        properties = properties_for(choices)
        body = bytes(choices.pick(SIZES))
        one = method + content_frames(number, properties, body, FRAME_MAX)
        client.send(one * choices.pick((1, 1, 2, 9)))

    def do_settle(self, client: Conversation) -> None:
        choices = self.choices
        made = choices.pick((m.BasicAck, m.BasicNack, m.BasicReject, m.BasicRecover))
        client.send(method_for(made, choices).frame(choices.pick((1, 1, 2))))

    def do_raw(self, client: Conversation) -> None:
        size = self.choices.octet()
        client.send(self.choices.raw(size))

    def do_broken_content(self, client: Conversation) -> None:
        """A publish whose header and body do not match, or that goes no further."""
        choices = self.choices
        number = choices.pick((1, 2))
        size = choices.pick((0, 1, 10, 2**40, 2**64 - 1))
        parts = [
            m.BasicPublish("", "q1").frame(number),
            header(number, size, choices.pick((b"\0\0", b"\x20\0\0\0\0\x01a", b"\0\1"))),
            frame(3, number, bytes(choices.pick((1, 11)))),
        ]
        client.send(b"".join(parts[: 1 + choices.below(3)]))

    def do_wait(self, _: Conversation) -> None:
        """Time passes."""
        self.pass_ms(self.choices.pick(PASSED_MS))

    def pass_ms(self, duration_ms: int) -> None:
        clock = self.broker.world.clock
        clock.time_ns += duration_ms * 10**6
        due = [timer for timer in clock.timers if timer[0] <= clock.time_ns]
        for timer in due:
            clock.timers.remove(timer)
            timer[1].post(timer[2])
        self.broker.run()

    def do_replace(self, client: Conversation) -> None:
        """The socket breaks; another client comes."""
        client.lose()
        self.broker.run()
        place = self.clients.index(client)
        self.queues |= client.queues
        self.clients[place] = Conversation(self.broker)
        self.clients[place].log_in()

    def end(self) -> None:
        """Both clients go. The broker serves the next one, and nothing of them is left."""
        self.settle()
        for client in self.clients:
            client.lose()
            self.queues |= client.queues
        self.broker.run()
        node = self.broker.node.broker
        assert not node.connections
        last = Conversation(self.broker)
        last.log_in()
        self.broker.run()
        said = [event.method.NAME for event in last.listen() if isinstance(event, MethodFrame)]
        assert said[-1:] == ["channel.open-ok"], said
        for queue in self.queues:
            if not queue.startswith("amq.rabbitmq"):
                answers = last.ask(m.QueueDelete(queue))
                assert isinstance(answers[-1], m.QueueDeleteOk), answers
        assert node.accounted_bytes == 0, "messages are left, or counted wrongly"
        assert last.ask(m.QueueDeclare("last")) == [m.QueueDeclareOk("last")]
        last.send(m.BasicPublish("", "last").frame(1) + content_frames(1, b"\0\0", b"x", FRAME_MAX))
        (got,) = last.ask(m.BasicGet("last", no_ack=True))
        assert isinstance(got, m.BasicGetOk), got


def decode(data: bytes) -> Session:
    """The session as the input says."""
    session = Session(Choices(data))
    session.play()
    session.settle()
    return session


def check(data: bytes) -> None:
    """No error but those told to clients; afterwards the broker is as good as new."""
    decode(data).end()


def seeds() -> Iterator[bytes]:
    """Rows of decisions that begin with a login."""
    yield b""
    yield b"\0"
    for number in range(1, 12):
        yield bytes([1, *((number * place * 37 + place) % 256 for place in range(150))])


TARGET = Target("session", check, decode, seeds, base_bytes=3_000_000, factor=40_000, input_max=600)
