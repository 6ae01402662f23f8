"""The whole node in one process: clients that do anything, an operator who asks for anything, time
that passes, memory that runs short, and restarts in between on the same files.

The input is a row of decisions (`choices.py`); `hostile.py` has the values. What breaks the
invariant is any exception out of the node, contained or not; answers that are no AMQP; a start that
finds fault with what an earlier node has written; and a node that does not serve the next client.
"""

from __future__ import annotations

import inspect
import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NoReturn

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import END, METHOD, PROTOCOL_HEADER, content_frames, frame_end
from sluicemq.amqp.method import Method
from sluicemq.amqp.types import encode_table
from sluicemq.chain.connection.reader import Reader
from sluicemq.config import Config, StorageConfig
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.endpoints import Peer
from sluicemq.kernel.socket_messages import Closed, Received
from sluicemq.kernel.world import Log, Memory
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.lists import LISTS
from sluicemq.manage.task import CommandAnswer, start
from sluicemq.manage.views import SINGLE
from sluicemq.node import Node
from support.fakes import FakeWorld
from support.files import DictFiles
from targets import hostile as h
from targets.choices import Choices
from targets.target import Target
from unit.chain.client import Sockets
from wire.streams import frame, header

SMALL_FILES: Final = StorageConfig(
    reserve_bytes=0,
    journal_file_size_limit=1 << 16,
    msg_store_file_size_limit=1 << 16,
    queue_index_segment_entry_count=16,
)
"""The files of these worlds are in memory; more of their kinds are made, and go again."""
STEPS_MAX: Final = 120
CLIENTS: Final = 3
CHANNELS: Final = (1, 2)
FRAME_MAX: Final = 4096
RUNS_MAX: Final = 5000
"""Rounds of 1000 turns until a node that is left alone must be idle."""
MEMORY_BYTES: Final = 1 << 30
SIZES: Final = (0, 1, 100, 4088, 5000, 20_000)
PASSED_MS: Final = (1, 51, 1100, 61_000, 4_000_000)
SENT_BY_CLIENTS: Final = [
    made
    for made in m.ALL_METHODS
    if (made.class_id != 10 and not made.NAME.endswith("-ok")) or made is m.ConnectionUpdateSecret
]
FIELDS: Final = {
    made: list(inspect.signature(made.__init__).parameters.values())[1:] if made.FIELDS else []
    for made in m.ALL_METHODS
}
FITTING: Final = (2**64 - 1, 2**32 - 1, 0xFFFF, 0xFF)
"""A number is cut to the first of these with which its method can be written."""
COMMANDS: Final = sorted({*ACTIONS, *LISTS, *SINGLE} - {"stop"})
LOCKING_OUT: Final = (
    "delete_vhost",
    "delete_user",
    "change_password",
    "clear_password",
    "clear_permissions",
)
"""After these an input hardly gets any further."""
GIVEN: Final[dict[str, tuple[object, ...]]] = {
    "username": ("guest", "guest", "u", "\u00e9", *h.TEXTS),
    "password": ("guest", "x", *h.TEXTS),
    "vhost": ("/", None, "v", "\ud800", 5, [], *h.TEXTS),
    "name": ("p", "n", *h.TEXTS),
    "pattern": h.PATTERNS,
    "definition": ('{"max-length": 1}', *h.JSON_VALUES),
    "value": h.JSON_VALUES,
    "apply_to": ("all", "queues", "exchanges", "streams", "x", None),
    "priority": (0, -1, 2**70, "1"),
    "component": ("c", "policy", "\ud800", *h.TEXTS),
    "columns": (None, 5, [[]], ["x"], "name"),
    "tags": ("", "a,b", ["administrator"], ["\ud800"], 5),
    "queue": h.QUEUES,
    "connection": ("127.0.0.1:1001 -> 127.0.0.1:5672", "x", "\ud800"),
    "explanation": (["x"], ["\x1b"], 5),
    "configure": h.PATTERNS,
    "write": h.PATTERNS,
    "read": h.PATTERNS,
    "exchange": ("amq.topic", *h.TEXTS),
    "fraction": (
        "0.4",
        "0.0",
        "absolute",
        "relative",
        "mem_relative",
        "nan",
        "inf",
        "-1",
        "9" * 400,
        "1e400",
    ),
    "size": ("100MB", "1", "x", "9" * 400, "nan"),
    "limit": (0, "1GB", "100000TB", "mem_relative", "x", -1),
    "limit_type": ("max-connections", "all", "x"),
    "user": (None, "guest", "x"),
    "global": (True, False),
    "global_": (True, False),
    "dry_run": (False, True),
    "if_empty": (False, True),
    "if_unused": (False, True),
    "description": ("", "x", "\udcff"),
    "skip_if_unchanged": (False, True),
    "default_queue_type": ("", "classic", "stream", "quorum", "x"),
}
"""What commands may be given, right and wrong."""


class Watching(Log):
    """Keeps what the node says is wrong."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def write(self, level: str, text: str) -> None:
        if level == "error":
            self.errors.append(text)


class AnyMemory(Memory):
    """As much in use as the input says."""

    def __init__(self) -> None:
        self.resident = 1 << 26

    def total_bytes(self) -> int:
        return MEMORY_BYTES

    def resident_bytes(self) -> int:
        return self.resident

    def trim(self) -> None:
        """Nothing is freed."""


class Machine:
    """One node after the other, on the same files and clock."""

    def __init__(self) -> None:
        self.world = FakeWorld()
        self.memory = self.world.memory = AnyMemory()
        self.log = self.world.log = Watching()
        self.accepted = 0
        self.node = self.begin()

    def begin(self) -> Node:
        """A node on what there is. It finds nothing wrong with that."""
        self.net = self.world.net = Sockets()
        self.world.clock.timers.clear()
        self.world.disk.jobs.clear()
        self.log.errors.clear()
        node = Node(self.world, Config(storage=SMALL_FILES))
        node.scheduler.contain = uncontained  # type: ignore[method-assign]
        assert not self.log.errors, self.log.errors
        return node

    def run(self) -> None:
        """Until nothing is left to do; the disk is done at once."""
        jobs = self.world.disk.jobs
        for _ in range(RUNS_MAX):
            if not self.node.run(1000) and not jobs:
                return
            while jobs:
                self.world.disk.finish()
        raise AssertionError("the node is never idle")

    def passes(self, duration_ms: int) -> None:
        """Time, and what waits for it."""
        clock = self.world.clock
        clock.time_ns += duration_ms * 10**6
        for _ in range(20):
            due = [timer for timer in clock.timers if timer[0] <= clock.time_ns]
            if not due:
                return
            clock.timers[:] = [timer for timer in clock.timers if timer[0] > clock.time_ns]
            for _, actor, message in due:
                actor.post(message)
            self.run()

    def stop(self) -> None:
        """In order."""
        self.node.shut_down()
        self.run()
        for reader in [*self.node.broker.connections.values()]:
            reader.post(Closed("gone"))
        self.run()
        self.node.close_storage()
        self.run()
        self.node = self.begin()

    def kill(self, *, power: bool) -> None:
        """Without a word; `power`: what was not synced is lost, too."""
        files = self.world.disk.files
        self.world.disk.files = files.crash() if power else copied(files)
        self.node = self.begin()

    def command(self, name: str, arguments: dict[str, Any]) -> CommandAnswer | None:
        """The operator's; None: it is not answered yet, for it waits for a client."""
        answers: list[CommandAnswer] = []
        start(self.node, ACTIONS, name, arguments, answers.append)
        self.run()
        return answers[0] if answers else None


def uncontained(_: Actor, error: Exception) -> NoReturn:
    """In place of containment: a fault is one wherever it comes."""
    raise error


def copied(files: DictFiles) -> DictFiles:
    """What a killed process leaves: all that was written."""
    return files.crash(lambda _, written: written)


class Conversation:
    """One client. It answers what it must, so that the input can go on."""

    def __init__(self, machine: Machine) -> None:
        machine.accepted += 1
        self.machine = machine
        self.number = machine.accepted
        peer = Peer("127.0.0.1", 1000 + self.number % 60_000, "127.0.0.1", 5672)
        self.reader: Reader | None = None
        if machine.node.admits(peer.peer_host):
            self.reader = machine.node.accept(self.number, peer)
        self.tags = dict.fromkeys(CHANNELS, 0)
        """The last delivery on each channel."""
        self.closed = False

    def send(self, data: bytes) -> None:
        if self.reader is not None and not self.closed:
            self.reader.post(Received(data))

    def log_in(self, start_ok: Method | None = None) -> None:
        """With all channels open."""
        hello = start_ok or m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
        self.send(PROTOCOL_HEADER)
        rest = [m.ConnectionTuneOk(5, FRAME_MAX, 0), m.ConnectionOpen("/")]
        self.send(b"".join([method.frame(0) for method in (hello, *rest)]))
        self.send(b"".join([m.ChannelOpen().frame(number) for number in CHANNELS]))

    def listen(self) -> list[int]:
        """Class and method of what was said, as one number each."""
        sent = self.machine.net.sent.get(self.number)
        if not sent:
            return []
        data = bytes(sent)
        sent.clear()
        if data[:4] == b"AMQP":
            return []
        heard: list[int] = []
        pos = 0
        while pos < len(data):
            end = frame_end(data, pos)
            assert 0 < end <= len(data), "half a frame was sent"
            assert data[end - 1] == END
            if data[pos] == METHOD:
                key = int.from_bytes(data[pos + 7 : pos + 11])
                heard.append(key)
                self.hear(key, int.from_bytes(data[pos + 1 : pos + 3]), data[pos + 11 : end - 1])
            pos = end
        return heard

    def hear(self, key: int, channel: int, arguments: bytes) -> None:
        """One method. All but those that carry a client's own words are in UTF-8."""
        if key in DELIVERIES:
            at = 1 + arguments[0] if key == DELIVER else 0
            self.tags[channel] = int.from_bytes(arguments[at : at + 8])
        elif key != RETURN:
            m.METHODS[key].decode_args(arguments, 0, len(arguments))
        if key == CHANNEL_CLOSE:
            self.send(m.ChannelCloseOk().frame(channel) + m.ChannelOpen().frame(channel))
        elif key == CLOSE:
            self.send(m.ConnectionCloseOk().frame(0))
            self.lose()

    def lose(self) -> None:
        """The socket breaks."""
        if self.reader is not None and not self.closed:
            self.closed = True
            self.reader.post(Closed("gone"))


def key_of(made: type[Method]) -> int:
    return made.class_id << 16 | made.method_id


DELIVER: Final = key_of(m.BasicDeliver)
DELIVERIES: Final = (DELIVER, key_of(m.BasicGetOk))
RETURN: Final = key_of(m.BasicReturn)
CHANNEL_CLOSE: Final = key_of(m.ChannelClose)
CLOSE: Final = key_of(m.ConnectionClose)
SECURE: Final = key_of(m.ConnectionStart)


class Session:
    """The machine and its clients; `play` does what the input says."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.machine = Machine()
        self.clients = [self.comes() for _ in range(CLIENTS)]
        self.client, self.channel = self.clients[0], 1
        if choices.octet() % 8:
            self.prepare()
        self.acts: tuple[Callable[[], None], ...] = (
            *(self.do_method,) * 5, *(self.do_publish,) * 6, *(self.do_queue,) * 3,
            self.do_exchange, *(self.do_bind,) * 2, *(self.do_consume,) * 3, *(self.do_settle,) * 2,
            self.do_get, *(self.do_command,) * 3, *(self.do_wait,) * 3, self.do_transaction,
            self.do_raw, self.do_broken_content, self.do_replace, self.do_hostile_login,
            self.do_restart, self.do_definitions, self.do_memory,
        )  # fmt: skip

    def prepare(self) -> None:
        """Queues and exchanges, as the input says, bound to one another; somebody consumes."""
        choices = self.choices
        for name, kind in (
            ("x1", "topic"), ("x2", "headers"), ("delayed", h.DELAYED), ("hash", h.HASH),
        ):  # fmt: skip
            arguments = {"x-delayed-type": "topic"} if kind == h.DELAYED else {}
            self.send(m.ExchangeDeclare(name, kind, durable=True, arguments=arguments))
        for name in h.QUEUES:
            arguments = h.PLAIN_QUEUES.get(name) or choices.pick(h.OTHER_QUEUES)
            self.send(m.QueueDeclare(name, False, True, name == "exclusive", arguments=arguments))
            source = choices.pick(h.EXCHANGES[2:])
            key = "20" if source == "hash" else choices.pick(h.PATHS)
            self.send(m.QueueBind(name, source, key))
            self.machine.run()
        self.settle()
        for client in self.clients[1:]:
            self.client = client
            for queue in choices.pick((("q1", "dead"), ("durable", "stream"), (), ("priority",))):
                self.send(m.BasicQos(prefetch_count=5), m.BasicConsume(queue))
        if choices.octet() % 2:
            self.send(m.ConfirmSelect())
        self.settle()

    def comes(self) -> Conversation:
        """A client, logged in."""
        client = Conversation(self.machine)
        client.log_in()
        return client

    def play(self) -> None:
        """All of the input, at most STEPS_MAX steps of it."""
        for _ in range(STEPS_MAX):
            if not self.choices:
                break
            which = self.choices.octet()
            self.client = self.clients[which % CLIENTS]
            self.channel = CHANNELS[which // CLIENTS % 2]
            self.choices.pick(self.acts)()
            if which < 200:
                self.settle()
        self.settle()

    def settle(self) -> None:
        """Everything that was posted is done and read; who was hung up on comes again."""
        self.machine.run()
        for place, client in enumerate(self.clients):
            client.listen()
            if client.closed or client.reader is None:
                self.clients[place] = self.comes()
        self.machine.run()

    def send(self, *some: Method) -> None:
        """From the client whose turn it is."""
        self.client.send(b"".join([method.frame(self.channel) for method in some]))

    def do_method(self) -> None:
        """Any method, with any values."""
        choices = self.choices
        made = choices.pick(SENT_BY_CLIENTS if choices.octet() % 16 else m.ALL_METHODS)
        number = 0 if made.class_id == 10 else choices.pick((self.channel,) * 6 + (0, 3, 0xFFFF))
        self.client.send(self.frame_of(made, number))

    def frame_of(self, made: type[Method], channel: int) -> bytes:
        """Of a method with values for its fields; numbers no larger than they can be."""
        fields = {
            field.name: self.value_for(field.name, str(field.annotation)) for field in FIELDS[made]
        }
        for most in FITTING:
            for name, value in fields.items():
                if type(value) is int:
                    fields[name] = value & most
            try:
                return made(**fields).frame(channel)
            except (struct.error, OverflowError, ValueError):
                if most == FITTING[-1]:
                    fields = {name: value for name, value in fields.items() if type(value) is int}
        return b""

    def value_for(self, name: str, kind: str) -> Any:
        """Something for that field of a method."""
        choices = self.choices
        if kind == "bool":
            return choices.flag()
        if kind == "int":
            if name == "delivery_tag" and choices.octet() % 4:
                return self.client.tags[self.channel]
            return choices.pick(h.NUMBERS)
        if kind == "bytes":
            return choices.pick((b"", b"\xff" * 9, b"\0" * 300))
        if kind == "str":
            return h.text(choices, USUAL.get(name, ("t1", "t2", "", "\x1b")))
        return h.table(choices, h.QUEUE_ARGUMENTS + h.CONSUMER_ARGUMENTS + h.EXCHANGE_ARGUMENTS)

    def do_publish(self) -> None:
        choices = self.choices
        bits = choices.octet()
        exchange, key = "", choices.pick(h.QUEUES)
        if bits & 3 == 0:
            exchange, key = h.text(choices, h.EXCHANGES), h.text(choices, h.KEYS)
        method = m.BasicPublish(exchange, key, bits & 28 == 4, bits & 0xFC == 0xFC)
        try:
            head = method.frame(self.channel)
        except ValueError:
            return  # longer than a short string may be
        raw = h.properties(choices, key)
        body = bytes(choices.pick(SIZES))
        one = head + content_frames(self.channel, raw, body, FRAME_MAX)
        self.client.send(one * choices.pick((1, 1, 2, 9)))

    def do_queue(self) -> None:
        choices = self.choices
        name = h.queue(choices)
        bits = choices.octet()
        arguments = h.queue_arguments(choices)
        durable = bool(bits & 1) or "x-queue-type" in arguments
        declare = m.QueueDeclare(
            name,
            bits & 30 == 30,
            durable,
            bits & 0x60 == 0x60,
            bits & 0x81 == 0x80,
            False,
            arguments,
        )
        self.send_sound(declare)

    def do_exchange(self) -> None:
        choices = self.choices
        arguments = {"x-delayed-type": "fanout"} if choices.flag() else {}
        arguments |= h.table(choices, h.EXCHANGE_ARGUMENTS)
        bits = choices.octet()
        declare = m.ExchangeDeclare(
            h.exchange(choices), choices.pick(h.TYPES), bits & 6 == 6, bool(bits & 1),
            bits & 24 == 24, bits & 0x60 == 0x60, False, arguments,
        )  # fmt: skip
        self.send_sound(declare)

    def do_bind(self) -> None:
        choices = self.choices
        arguments = h.table(choices, h.BINDING_ARGUMENTS) if choices.flag() else {}
        one, other = h.exchange(choices), h.text(choices, h.KEYS)
        self.send_sound(
            choices.pick((
                m.QueueBind(h.queue(choices), one, other, False, arguments),
                m.QueueBind(h.queue(choices), one, other, False, arguments),
                m.ExchangeBind(h.exchange(choices), one, other, False, arguments),
                m.QueueUnbind(h.queue(choices), one, other, arguments),
                m.ExchangeUnbind(h.exchange(choices), one, other, False, arguments),
            ))
        )  # fmt: skip

    def send_sound(self, method: Method) -> None:
        """If it can be written at all."""
        try:
            self.send(method)
        except ValueError:
            return

    def do_consume(self) -> None:
        choices = self.choices
        bits = choices.octet()
        arguments = h.table(choices, h.CONSUMER_ARGUMENTS) if bits & 64 else {}
        if bits & 3:
            self.send(m.BasicQos(prefetch_count=bits & 3, global_=bits & 12 == 12))
        tag = choices.pick(("", "t1", "t2", "\x1b\u00e9"))
        queue = h.queue(choices)
        consume = m.BasicConsume(
            queue, tag, False, bits & 16 > 0, bits & 0xA0 == 0xA0, False, arguments
        )
        self.send_sound(consume)

    def do_settle(self) -> None:
        choices = self.choices
        last = self.client.tags[self.channel]
        tag = choices.pick((last, last, last, last, max(1, last - 1), 0, 1, 2**64 - 1))
        self.send(
            choices.pick((
                m.BasicAck(tag, choices.flag()), m.BasicNack(tag, choices.flag(), choices.flag()),
                m.BasicReject(tag, choices.flag()), m.BasicRecover(requeue=True),
                m.BasicNack(tag, False, True), m.BasicCancel("t1"),
            ))
        )  # fmt: skip

    def do_get(self) -> None:
        self.send_sound(m.BasicGet(h.queue(self.choices), self.choices.flag()))

    def do_transaction(self) -> None:
        choices = (m.TxSelect(), m.TxCommit(), m.TxRollback(), m.ConfirmSelect())
        self.send(self.choices.pick(choices))

    def do_raw(self) -> None:
        self.client.send(self.choices.raw(self.choices.octet()))

    def do_broken_content(self) -> None:
        """A publish whose header and body do not match, or that goes no further."""
        choices = self.choices
        raw = choices.pick((b"\0\0", b"\x20\0\0\0\0\x01a", b"\0\1", b"\xff\xfc", b"\x80\0\xff"))
        parts = [
            m.BasicPublish("", "q1").frame(self.channel),
            header(self.channel, choices.pick((0, 1, 10, 2**40, 2**64 - 1)), raw),
            frame(3, self.channel, bytes(choices.pick((1, 11)))),
        ]
        self.client.send(b"".join(parts[: 1 + choices.below(3)]))

    def do_wait(self) -> None:
        self.machine.passes(self.choices.pick(PASSED_MS))

    def do_replace(self) -> None:
        """The socket breaks, maybe in the middle of something."""
        self.client.lose()

    def do_hostile_login(self) -> None:
        """A client that says strange things before it is known."""
        choices = self.choices
        self.client.lose()
        stranger = Conversation(self.machine)
        properties = h.table(choices, h.CLIENT_PROPERTIES)
        if choices.flag():
            properties["capabilities"] = h.table(choices, ("authentication_failure_close", "x"))
        mechanism = choices.pick(("AMQPLAIN", "PLAIN", "EXTERNAL", "\x1b", ""))
        password: Any = choices.pick(("guest", *h.VALUES))
        table = {"LOGIN": choices.pick(("guest", "guest", *h.VALUES)), "PASSWORD": password}
        response = encode_table(table)[4:]
        if mechanism == "PLAIN":
            response = choices.pick(
                (b"\0guest\0guest", b"\0\xff\0\xff", b"", b"\0\0", b"\0guest\0\xff")
            )
        stranger.log_in(
            m.ConnectionStartOk(properties, mechanism, response, choices.pick(("en_US", "")))
        )
        self.clients[self.clients.index(self.client)] = stranger

    def do_restart(self) -> None:
        """In order, by a kill, or by a loss of power. All clients come again."""
        kind = self.choices.below(3)
        if kind == 0:
            self.machine.stop()
        else:
            self.machine.kill(power=kind == 1)
        self.clients = [self.comes() for _ in range(CLIENTS)]

    def do_command(self) -> None:
        """Any, with any arguments. Its answer is one that can be printed."""
        choices = self.choices
        name = choices.pick(COMMANDS)
        if name in LOCKING_OUT and choices.octet() % 8:
            name = "set_policy"
        arguments: dict[str, Any] = {given: values[0] for given, values in GIVEN.items()}
        for _ in range(choices.below(4)):
            given = choices.pick([*GIVEN])
            arguments[given] = choices.pick(GIVEN[given])
        if choices.octet() % 8 == 0:
            del arguments[choices.pick([*GIVEN])]
        if name in LISTS:
            arguments["vhost"] = choices.pick(("/", "/", *GIVEN["vhost"]))
            if choices.octet() % 4:
                arguments["columns"] = [*LISTS[name][1]]
        self.judge(self.machine.command(name, arguments))

    def do_definitions(self) -> None:
        """Some are imported, or all are exported and imported again, which changes nothing."""
        text = h.document(self.choices)
        if self.choices.flag():
            exported = self.machine.command("export_definitions", {})
            assert exported is not None
            text = exported.rows[0]["file"]
            answer = self.machine.command("import_definitions", {"file": text})
            assert answer is None or not answer.error, answer
            return
        vhost = self.choices.pick((None, "/"))
        self.judge(self.machine.command("import_definitions", {"file": text, "vhost": vhost}))

    def judge(self, answer: CommandAnswer | None) -> None:
        """It can be written as JSON, and an error is text."""
        if answer is not None:
            json.dumps(answer.as_json(), allow_nan=False)
            answer.error.encode()

    def do_memory(self) -> None:
        """It runs short, or is there again."""
        self.machine.memory.resident = self.choices.pick((MEMORY_BYTES, 1 << 26))
        self.machine.passes(1100)

    def end(self) -> None:
        """All go; memory is there again. The node serves the next client, if it still knows it, and
        so does another one on the same files."""
        self.machine.memory.resident = 1 << 26
        for client in self.clients:
            client.lose()
        self.machine.run()
        assert not self.machine.node.broker.connections
        self.machine.passes(61_000)
        self.serves()
        self.machine.stop()
        self.serves()

    def serves(self) -> None:
        """A client is answered; one that may do so declares a queue."""
        definitions = self.machine.node.broker.definitions
        right = definitions.permissions.get(("guest", "/"))
        last = Conversation(self.machine)
        last.log_in()
        last.send(m.QueueDeclare("last", exclusive=True).frame(1))
        self.machine.passes(61_000)
        self.machine.run()
        heard = last.listen()
        assert SECURE in heard, heard
        if key_of(m.ConnectionOpenOk) in heard and right is not None and right.configure == ".*":
            assert key_of(m.QueueDeclareOk) in heard or CHANNEL_CLOSE in heard, heard
        last.lose()
        self.machine.run()


USUAL: Final[dict[str, tuple[str, ...]]] = {
    "queue": h.QUEUES, "exchange": h.EXCHANGES, "source": h.EXCHANGES, "destination": h.EXCHANGES,
    "routing_key": h.KEYS, "exchange_type": h.TYPES, "mechanism": ("PLAIN", "AMQPLAIN"),
    "virtual_host": ("/", "none"),
}  # fmt: skip


def decode(data: bytes) -> Session:
    """The session as the input says."""
    session = Session(Choices(data))
    session.play()
    return session


def check(data: bytes) -> None:
    """No exception, and a node that serves."""
    decode(data).end()


def seeds() -> Iterator[bytes]:
    """Rows of decisions; with chance it takes few of them to meet most of what there is."""
    yield b""
    for number in range(24):
        yield Random(number).randbytes(500)


TARGET = Target("node", check, decode, seeds, base_bytes=12_000_000, factor=100_000, input_max=900)
