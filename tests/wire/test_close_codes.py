"""What the broker answers to peers that break the rules: one row a case.

Each case has its own connection, brought to a stage; then some bytes, then the broker's next
word. The first answer of a row is RabbitMQ 3.10's. Further ones are allowed where RabbitMQ's own
process crashes (541, or the end without a word) or forgets to look, and AMQP knows better.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass

import pytest
from pamqp import commands

from support.broker import Target
from support.peer import (
    FRAME_MAX,
    PATIENCE_SECONDS,
    PROTOCOL,
    QUIET_SECONDS,
    Peer,
    body,
    call,
    channel_open,
    connection_open,
    content,
    frame,
    header,
    long,
    publish,
    raw_method,
    short,
    start_ok,
    tune_ok,
)

NAME = f"wire-{uuid.uuid4().hex[:12]}"
Basic, Channel, Connection = commands.Basic, commands.Channel, commands.Connection
Confirm, Exchange, Queue, Tx = commands.Confirm, commands.Exchange, commands.Queue, commands.Tx

TO_NOBODY = call(Basic.Publish(routing_key=NAME))
MINE = call(Queue.Declare(queue=NAME, exclusive=True))
UNEXPECTED = "connection 505 UNEXPECTED_FRAME - expected"
NO_METHOD = f"{UNEXPECTED} method frame, got non method frame instead (0.0)"
NO_HEADER = (
    f"{UNEXPECTED} content header for class 60, got non content header frame instead (60.40)"
)
NO_BODY = f"{UNEXPECTED} content body, got non content body frame instead (60.40)"
NOT_OPEN = "connection 504 CHANNEL_ERROR - expected 'channel.open'"
NOT_HERE = "connection 504 CHANNEL_ERROR - unexpected method in connection state running"
CRASH = "connection 541 INTERNAL_ERROR (0.0)"
FRAME_ERROR = "connection 501 FRAME_ERROR"
UNIMPLEMENTED = "connection 540 NOT_IMPLEMENTED"
SYNTAX = "connection 502 SYNTAX_ERROR"
LOG_IN_REFUSED = (
    "connection 403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile. (0.0)"
)
THIS_PROTOCOL = "header 00000901"
RESERVED = "contains reserved prefix 'amq.*'"
PREFIXES = (
    FRAME_ERROR,
    SYNTAX,
    UNIMPLEMENTED,
    "connection 403",
    "connection 503",
    "connection 505",
)
"""Answers that stand for all that begin with them."""


@dataclass(frozen=True)
class Case:
    """`also`: other answers that are as good; `skip`: so many answers to read over first."""

    name: str
    sent: bytes
    answer: str
    also: tuple[str, ...] = ()
    skip: int = 0


def case(name: str, sent: bytes, answer: str, *also: str, skip: int = 0) -> Case:
    return Case(name, sent, answer, also, skip)


def declare(queue: bytes | str = b"", bits: int = 4, arguments: bytes = b"\0\0\0\0") -> bytes:
    """queue.declare by hand; bits: 1 passive, 2 durable, 4 exclusive, 8 auto-delete, 16 no-wait."""
    return raw_method(1, 50, 10, b"\0\0" + short(queue) + bytes([bits]) + arguments)


def octets(name: str, sent: bytes, rest: str) -> Case:
    return case(name, sent, f"{FRAME_ERROR} - type {rest} (0.0)")


BEFORE_LOG_IN = [
    case("an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", THIS_PROTOCOL),
    case("AMQP 1.0", b"AMQP\x00\x01\x00\x00", THIS_PROTOCOL),
    case("AMQP 1.0 with SASL", b"AMQP\x03\x01\x00\x00", THIS_PROTOCOL),
    case("revision 0-9-2", b"AMQP\x00\x00\x09\x02", THIS_PROTOCOL),
    case("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), THIS_PROTOCOL),
    case("AMQP 0-8", b"AMQP\x01\x01\x08\x00", "Connection.Start", THIS_PROTOCOL),
    case("AMQP 0-9", b"AMQP\x01\x01\x00\x09", "Connection.Start", THIS_PROTOCOL),
    case("AMQP 0-9-1", PROTOCOL, "Connection.Start"),
]

STARTED = [
    case("a good log-in", start_ok(), "Connection.Tune"),
    case(
        "AMQPLAIN",
        start_ok(b"\x05LOGINS\0\0\0\5guest\x08PASSWORDS\0\0\0\5guest", "AMQPLAIN"),
        "Connection.Tune",
    ),
    case("a wrong password", start_ok(b"\0guest\0wrong"), LOG_IN_REFUSED),
    case("an unknown user", start_ok(b"\0nobody\0guest"), LOG_IN_REFUSED),
    case("a wrong password, no capability", start_ok(b"\0guest\0wrong", capabilities=False), "end"),
    case("an unknown mechanism", start_ok(mechanism="NOSUCH"), "end", "connection 403"),
    case("an empty response", start_ok(b""), "end", "connection 403", FRAME_ERROR),
    case("an empty locale", start_ok(locale=""), "Connection.Tune"),
    case("open before start-ok", connection_open(), "end", "connection 503", "connection 505"),
    case("a broken frame", frame(9, 0, b"x"), "end", FRAME_ERROR),
    case(
        "client properties too long", raw_method(0, 10, 11, b"\0\0\x13\x88abc"), "end", FRAME_ERROR
    ),
]

TUNING = [
    case("tune as offered", tune_ok() + connection_open(), "Connection.OpenOk"),
    case("frame-max 4096", tune_ok(frame_max=4096) + connection_open(), "Connection.OpenOk"),
    case("frame-max 4095", tune_ok(frame_max=4095) + connection_open(), "end", *PREFIXES),
    case("open before tune-ok", connection_open(), "end", "connection 503", "connection 505"),
    case(
        "an unknown virtual host",
        tune_ok() + connection_open("nosuch"),
        "connection 530 NOT_ALLOWED - vhost nosuch not found (10.40)",
    ),
]

CONNECTION = [
    case(
        "a method for a channel that is not open",
        call(Queue.Delete(queue=NAME), 5),
        f"{NOT_OPEN} (50.40)",
    ),
    case(
        "a publish on a channel that is not open", publish(NAME, channel=5), f"{NOT_OPEN} (60.40)"
    ),
    case(
        "close of a channel that is not open",
        call(Channel.Close(200, "", 0, 0), 7),
        f"{NOT_OPEN} (20.40)",
    ),
    case("a queue method on channel 0", call(Queue.Delete(queue=NAME), 0), f"{NOT_HERE} (50.40)"),
    case("channel.open on channel 0", channel_open(0), f"{NOT_HERE} (20.10)"),
    case("connection.open on a channel", call(Connection.Open(), 1), f"{NOT_OPEN} (10.40)"),
    case("a second connection.open", connection_open(), f"{NOT_HERE} (10.40)"),
    case("a second start-ok", start_ok(), f"{NOT_HERE} (10.11)"),
    case(
        "a header on channel 0",
        header(5, channel=0),
        "connection 505 UNEXPECTED_FRAME - type 2, all octets = "
        "<<0,60,0,0,0,0,0,0,0,0,0,5,0,0>> (0.0)",
    ),
    case(
        "a body on channel 0",
        body(b"abc", channel=0),
        'connection 505 UNEXPECTED_FRAME - type 3, all octets = <<"abc">> (0.0)',
    ),
    case(
        "a heartbeat on channel 1",
        frame(8, 1, b""),
        "connection 505 UNEXPECTED_FRAME - type 8, all octets = <<>> (0.0)",
        FRAME_ERROR,
        "connection 503",
    ),
    octets(
        "a heartbeat with a payload",
        frame(8, 0, b"hello"),
        '8, all octets = <<"hello">>: unknown_frame',
    ),
    octets("a method frame of no bytes", frame(1, 0, b""), "1, all octets = <<>>: unknown_frame"),
    octets(
        "a method frame of three bytes",
        frame(1, 0, b"\0\x0a\0"),
        "1, all octets = <<0,10,0>>: unknown_frame",
    ),
    octets(
        "a frame of 4 GiB",
        struct.pack(">BHI", 1, 0, 0xFFFFFFFF) + b"x" * 100,
        f"1, all octets = <<>>: {{frame_too_large,4294967295,{FRAME_MAX - 8}}}",
    ),
    case("an unknown class on channel 0", raw_method(0, 999, 1), "end", *PREFIXES),
    case(
        "update-secret", call(Connection.UpdateSecret("new", "why"), 0), "Connection.UpdateSecretOk"
    ),
    case("close", call(Connection.Close(200, "bye", 0, 0), 0), "Connection.CloseOk"),
]

FRAMES = [
    case(
        "a second channel.open",
        channel_open(),
        "connection 504 CHANNEL_ERROR - second 'channel.open' seen (20.10)",
    ),
    octets(
        "a wrong frame end",
        frame(1, 1, struct.pack(">HH", 50, 10) + b"\0\0\0\4\0\0\0\0", end=0xCD),
        "1, all octets = <<0,50,0,10,0,0,0,4,0,0,0,0>>: {invalid_frame_end_marker,\n"
        "                                                     205}",
    ),
    octets("frame type 9", frame(9, 1, b"xx"), '9, all octets = <<"xx">>: unknown_frame'),
    octets("frame type 0", frame(0, 1, b"xx"), '0, all octets = <<"xx">>: unknown_frame'),
    octets("frame type 4", frame(4, 0, b""), "4, all octets = <<>>: unknown_frame"),
    octets("an empty method frame", frame(1, 1, b""), "1, all octets = <<>>: unknown_frame"),
    octets(
        "an empty header frame", TO_NOBODY + frame(2, 1, b""), "2, all octets = <<>>: unknown_frame"
    ),
    octets(
        "a cut header",
        TO_NOBODY + frame(2, 1, b"\0\x3c\0\0\0\0"),
        "2, all octets = <<0,60,0,0,0,0>>: unknown_frame",
    ),
    case("an unknown class", raw_method(1, 999, 1), "end", *PREFIXES),
    case("an unknown method", raw_method(1, 60, 999), "end", *PREFIXES),
    case(
        "queue.declare-ok from a client",
        call(Queue.DeclareOk("q", 0, 0)),
        "connection 503 COMMAND_INVALID - unimplemented method (50.11)",
        *PREFIXES,
    ),
    case(
        "access.request", raw_method(1, 30, 10, short("/data") + b"\x1f"), "method 30.11", *PREFIXES
    ),
    case(
        "a cut queue.declare",
        raw_method(1, 50, 10, b"\0\0\3abc"),
        f"{FRAME_ERROR} - cannot decode <<0,0,3,97,98,99>> (50.10)",
    ),
    case(
        "a name longer than its frame",
        raw_method(1, 50, 10, b"\0\0\xc8abc"),
        f"{FRAME_ERROR} - cannot decode <<0,0,200,97,98,99>> (50.10)",
    ),
    case(
        "bytes behind the arguments",
        raw_method(1, 50, 10, b"\0\0\0\4\0\0\0\0JUNK"),
        f"{FRAME_ERROR} - cannot decode <<0,0,0,4,0,0,0,0,74,85,78,75>> (50.10)",
    ),
    case(
        "an ack of three bytes",
        raw_method(1, 60, 80, b"\0\0\0"),
        f"{FRAME_ERROR} - cannot decode <<0,0,0>> (60.80)",
    ),
    case(
        "a qos without arguments",
        raw_method(1, 60, 10),
        f"{FRAME_ERROR} - cannot decode <<>> (60.10)",
    ),
    case("reserved bits", declare(bits=0xE4), "Queue.DeclareOk", *PREFIXES),
    case(
        "a name that is not UTF-8",
        declare(b"\xff\xfe\xfd"),
        f"{FRAME_ERROR} - Malformed UTF-8 in shortstr (0.0)",
        "connection 501",
        SYNTAX,
    ),
    case("a name with NUL and newline", declare(f"a\0b\n{NAME}"), "Queue.DeclareOk"),
    case(
        "a table longer than its frame",
        declare(arguments=b"\0\0\x0f\xa0\x01at\x01"),
        f"{FRAME_ERROR} - cannot decode <<0,0,0,4,0,0,15,160,1,97,116,1>> (50.10)",
        SYNTAX,
    ),
    case(
        "a table shorter than its entries",
        declare(arguments=b"\0\0\0\5\x01at\x01\x01bt\x01"),
        f"{FRAME_ERROR} - cannot decode <<0,0,0,4,0,0,0,5,1,97,116,1,1,98,116,1>> (50.10)",
        SYNTAX,
    ),
    case(
        "a table with an unknown type",
        declare(arguments=long(b"\x01aZ\x01")),
        "end",
        FRAME_ERROR,
        SYNTAX,
    ),
    case(
        "a table with a cut string",
        declare(arguments=long(b"\x01aS\0\0\1\0abc")),
        "end",
        FRAME_ERROR,
        SYNTAX,
    ),
    case(
        "a table with an endless array",
        declare(arguments=long(b"\x01aA\xff\xff\xff\xff")),
        "end",
        FRAME_ERROR,
        SYNTAX,
    ),
    case("py-amqp's long", declare(arguments=long(b"\x01aL" + bytes(8))), "Queue.DeclareOk"),
    case("a table with an empty key", declare(arguments=long(b"\0t\x01")), "Queue.DeclareOk"),
]

CONTENTS = [
    case("a header without a method", header(5), NO_METHOD),
    case("a body without a header", body(b"abc"), NO_METHOD),
    case("a method where a header is due", TO_NOBODY + MINE, NO_HEADER),
    case("a body where a header is due", TO_NOBODY + body(b"abc"), NO_HEADER),
    case("a second header", TO_NOBODY + header(5) + header(5), NO_BODY),
    case("a method where a body is due", TO_NOBODY + header(5) + MINE, NO_BODY),
    case(
        "a header of another class",
        TO_NOBODY + header(5, class_id=50) + body(b"hello"),
        f"{UNEXPECTED} content header for class 60, got one for class 50 instead (60.40)",
    ),
    case(
        "a header with a weight",
        TO_NOBODY + header(5, weight=1) + body(b"hello"),
        NO_HEADER,
        FRAME_ERROR,
    ),
    case("a body behind the last", TO_NOBODY + content(b"hello") + body(b"x"), NO_METHOD),
    case("a body behind an empty content", TO_NOBODY + header(0) + body(b""), NO_METHOD),
    case("cut properties", TO_NOBODY + header(0, b"\x80\0\x20abc"), CRASH, FRAME_ERROR, SYNTAX),
    case(
        "a missing second flag word", TO_NOBODY + header(0, b"\x80\x01"), CRASH, FRAME_ERROR, SYNTAX
    ),
    case(
        "bytes behind the properties",
        TO_NOBODY + header(0, b"\0\0JUNK"),
        CRASH,
        FRAME_ERROR,
        SYNTAX,
    ),
    case(
        "headers longer than the frame",
        TO_NOBODY + header(0, b"\x20\0\0\1\x86\x9fabc"),
        CRASH,
        FRAME_ERROR,
        SYNTAX,
    ),
    case(
        "a body longer than announced",
        TO_NOBODY + header(3) + body(b"hello"),
        "silence",
        FRAME_ERROR,
        "connection 505",
    ),
    case(
        "delivery mode 9",
        publish(NAME, properties=b"\x10\0\x09"),
        "channel 406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,9} (60.40)",
    ),
    case(
        "an expiration that is no number",
        publish(NAME, properties=b"\x01\0\3abc"),
        "channel 406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer (60.40)",
    ),
    case(
        "a negative expiration",
        publish(NAME, properties=b"\x01\0\2-1"),
        "channel 406 PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1} (60.40)",
    ),
    case(
        "somebody else's user id",
        publish(NAME, properties=b"\0\x10\5other"),
        "channel 406 PRECONDITION_FAILED - user_id property set to 'other' "
        "but authenticated user was 'guest' (60.40)",
    ),
]

NO_QUEUE = f"channel 404 NOT_FOUND - no queue '{NAME}' in vhost '/'"
NO_EXCHANGE = f"channel 404 NOT_FOUND - no exchange '{NAME}' in vhost '/'"
DEFAULT = "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange"

MEANINGS = [
    case(
        "a reserved queue name",
        declare("amq.x"),
        f"channel 403 ACCESS_REFUSED - queue name 'amq.x' {RESERVED} (50.10)",
    ),
    case(
        "a reserved exchange name",
        call(Exchange.Declare(exchange="amq.x")),
        f"channel 403 ACCESS_REFUSED - exchange name 'amq.x' {RESERVED} (40.10)",
    ),
    case(
        "declaring the default exchange", call(Exchange.Declare(exchange="")), f"{DEFAULT} (40.10)"
    ),
    case("deleting the default exchange", call(Exchange.Delete(exchange="")), f"{DEFAULT} (40.20)"),
    case(
        "deleting amq.direct",
        call(Exchange.Delete(exchange="amq.direct")),
        "channel 403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' "
        "in vhost '/' not allowed (40.20)",
    ),
    case(
        "binding the default exchange",
        MINE + call(Queue.Bind(queue=NAME, exchange="", routing_key="k")),
        f"{DEFAULT} (50.20)",
        skip=1,
    ),
    case(
        "an unknown exchange type",
        call(Exchange.Declare(exchange=NAME, exchange_type="nosuch")),
        "connection 503 COMMAND_INVALID - unknown exchange type 'nosuch' (40.10)",
    ),
    case("publishing to a missing exchange", publish("k", exchange=NAME), f"{NO_EXCHANGE} (60.40)"),
    case(
        "publishing immediate",
        call(Basic.Publish(routing_key=NAME, immediate=True)) + content(b"x"),
        f"{UNIMPLEMENTED} - immediate=true (60.40)",
    ),
    case("get from a missing queue", call(Basic.Get(queue=NAME)), f"{NO_QUEUE} (60.70)"),
    case("consume from a missing queue", call(Basic.Consume(queue=NAME)), f"{NO_QUEUE} (60.20)"),
    case("passive declare of a missing queue", declare(NAME, bits=1), f"{NO_QUEUE} (50.10)"),
    case("purge of a missing queue", call(Queue.Purge(queue=NAME)), f"{NO_QUEUE} (50.30)"),
    case("delete of a missing queue", call(Queue.Delete(queue=NAME)), "Queue.DeleteOk"),
    case(
        "unbind of what was never bound",
        MINE + call(Queue.Unbind(queue=NAME, exchange="amq.direct", routing_key="k")),
        "Queue.UnbindOk",
        skip=1,
    ),
    case(
        "no queue declared before",
        call(Basic.Get(queue="")),
        "channel 404 NOT_FOUND - no previously declared queue (60.70)",
    ),
    case(
        "exchange.bind to a missing exchange",
        call(Exchange.Bind(destination="amq.direct", source=NAME)),
        f"{NO_EXCHANGE} (40.30)",
    ),
    case(
        "ack of an unknown tag",
        call(Basic.Ack(99)),
        "channel 406 PRECONDITION_FAILED - unknown delivery tag 99 (60.80)",
    ),
    case(
        "ack of tag 0",
        call(Basic.Ack(0)),
        "channel 406 PRECONDITION_FAILED - unknown delivery tag 0 (60.80)",
    ),
    case("ack of everything when there is nothing", call(Basic.Ack(0, True)), "silence"),
    case(
        "reject of an unknown tag",
        call(Basic.Reject(9, True)),
        "channel 406 PRECONDITION_FAILED - unknown delivery tag 9 (60.90)",
    ),
    case(
        "nack of an unknown tag",
        call(Basic.Nack(9)),
        "channel 406 PRECONDITION_FAILED - unknown delivery tag 9 (60.120)",
    ),
    case("cancel of an unknown tag", call(Basic.Cancel("nosuch")), "Basic.CancelOk"),
    case(
        "a prefetch size",
        call(Basic.Qos(prefetch_size=1000, prefetch_count=1)),
        f"{UNIMPLEMENTED} - prefetch_size!=0 (1000) (60.10)",
    ),
    case("flow off", call(Channel.Flow(False)), f"{UNIMPLEMENTED} - active=false (20.20)"),
    case("flow on", call(Channel.Flow(True)), "Channel.FlowOk"),
    case(
        "recover without requeue",
        call(Basic.Recover(False)),
        f"{UNIMPLEMENTED} - requeue=false (60.110)",
    ),
    case(
        "tx.commit without tx.select",
        call(Tx.Commit()),
        "channel 406 PRECONDITION_FAILED - channel is not transactional (90.20)",
        UNIMPLEMENTED,
    ),
    case(
        "tx.select under confirms",
        call(Confirm.Select()) + call(Tx.Select()),
        "channel 406 PRECONDITION_FAILED - cannot switch from confirm to tx mode (90.10)",
        UNIMPLEMENTED,
        skip=1,
    ),
    case(
        "x-max-length on the second declare",
        call(Queue.Declare(queue=NAME, exclusive=True))
        + call(Queue.Declare(queue=NAME, exclusive=True, arguments={"x-max-length": 70000})),
        f"channel 406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{NAME}' "
        "in vhost '/': received the value '70000' of type 'signedint' but current is none (50.10)",
        skip=1,
    ),
    case(
        "durable on the second declare of an exclusive queue",
        MINE + call(Queue.Declare(queue=NAME, exclusive=True, durable=True)),
        "Queue.DeclareOk",
        skip=1,
    ),
]


def check(peer: Peer, row: Case) -> None:
    peer.send(row.sent)
    for _ in range(row.skip):
        peer.read()
    may_be_silent = "silence" in (row.answer, *row.also)
    said = peer.verdict(QUIET_SECONDS if may_be_silent else PATIENCE_SECONDS)
    good = said in (row.answer, *row.also)
    assert good or said.startswith(tuple(other for other in row.also if other in PREFIXES)), said


def names(rows: list[Case]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.parametrize("row", BEFORE_LOG_IN, ids=names(BEFORE_LOG_IN))
def test_first_words(target: Target, row: Case) -> None:
    with Peer(target) as peer:
        check(peer, row)


@pytest.mark.parametrize("row", STARTED, ids=names(STARTED))
def test_log_in(target: Target, row: Case) -> None:
    with Peer(target) as peer:
        check(peer.start(), row)


@pytest.mark.parametrize("row", TUNING, ids=names(TUNING))
def test_tuning(target: Target, row: Case) -> None:
    with Peer(target) as peer:
        check(peer.authenticate(), row)


@pytest.mark.parametrize("row", CONNECTION, ids=names(CONNECTION))
def test_on_the_connection(target: Target, row: Case) -> None:
    with Peer(target) as peer:
        check(peer.log_in(), row)


ON_A_CHANNEL = FRAMES + CONTENTS + MEANINGS


@pytest.mark.parametrize("row", ON_A_CHANNEL, ids=names(ON_A_CHANNEL))
def test_on_a_channel(target: Target, row: Case) -> None:
    with Peer(target) as peer:
        check(peer.log_in().open(), row)
