"""Goal: a command that was written is read as it was, wherever its actors are known; and what is
none of ours, damaged, or of a later version, is refused with a sentence, and nothing else happens.

Method: commands of every type made by Hypothesis, there and back; each cut and each addition; any
bytes at all; and the example in docs/command-format.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import ActorAddress, AddressTable, UnknownAddress
from sluicemq.model.batch import Batch
from sluicemq.queues import commands as c
from sluicemq.queues.command_codec import (
    DECODERS,
    ENCODERS,
    HEAD,
    CommandDecoder,
    UnreadableCommand,
    encode_command,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.settings import QueueSettings
from sluicemq.text import text_of
from support.batches import batch_of
from support.fakes import FakeClock, bystander

U16, U32, U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "command-format.md"
EXAMPLE = DOCUMENT.read_text(encoding="utf-8").partition("## Example")[2]

CHANNELS = [bystander() for _ in range(3)]

channels = st.sampled_from(CHANNELS)
texts = st.binary(max_size=20).map(text_of)
tables = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts | st.binary(max_size=5),
    max_size=3,
)


def window_of(_: Actor) -> Outflow:
    return Outflow(GateKeeper(FakeClock()), "deliveries", LinkSpec(10, 1))


def consumer_of(
    channel: Actor,
    tag: str = "c",
    no_ack: bool = False,
    exclusive: bool = False,
    priority: int = 0,
    prefetch: int = 0,
    arguments: Any = None,
) -> Consumer:
    return Consumer(
        channel,
        tag,
        no_ack,
        exclusive,
        priority,
        Prefetch(prefetch),
        Limiter(),
        window_of(channel),
        arguments or {},
    )


@st.composite
def publishes(draw: st.DrawFn) -> c.Publish:
    if same_size := draw(st.booleans()):
        size = draw(st.integers(1, 20))
        contents = draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=5))
    else:
        contents = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=5))
    batch = batch_of(
        contents,
        draw(st.binary(max_size=20)),
        same_size=same_size,
        persistent=draw(st.booleans()),
        channel_number=draw(st.integers(0, U16)),
        ttl_ms=draw(st.none() | st.integers(0, U64)),
        priority=draw(st.integers(0, 255)),
    )
    publish = c.Publish(batch, Link(draw(channels)), draw(st.integers(1, U64)), draw(st.booleans()))
    publish.expiry = draw(st.integers(0, U64))
    publish.came_ms = draw(st.integers(0, U64))
    return publish


numbers = st.none() | st.integers(0, 1 << 40)
settings_of_queues = st.builds(
    QueueSettings,
    message_ttl_ms=numbers,
    expires_ms=numbers,
    max_length=numbers,
    max_length_bytes=numbers,
    overflow=st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
    dead_letter_exchange=st.none() | st.text(max_size=5),
    dead_letter_routing_key=st.none() | texts,
    dead_letter_strategy=st.sampled_from(["at-most-once", "at-least-once"]),
    max_priority=numbers,
    single_active_consumer=st.booleans(),
    delivery_limit=numbers,
    lazy=st.booleans(),
    max_age_ms=numbers,
    max_segment_bytes=numbers,
    max_in_memory_length=numbers,
    max_in_memory_bytes=numbers,
)
parts = st.tuples(st.integers(0, U64), st.integers(0, U32), st.integers(0, U32))
consumers = st.builds(
    consumer_of,
    channels,
    texts,
    st.booleans(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, U32),
    tables,
)
commands = st.one_of(
    publishes(),
    st.builds(
        c.Settle,
        st.builds(c.LinkId, st.integers(0, U64), st.integers(0, U64)),
        st.lists(parts, max_size=5),
        st.sampled_from([c.ACK, c.REQUEUE, c.REJECT]),
    ),
    st.builds(c.Consume, consumers),
    st.builds(c.Get, channels, st.booleans()),
    st.builds(c.Inspect, channels),
    st.builds(c.Purge, channels),
    st.builds(c.Delete, st.none() | channels, st.booleans(), st.booleans()),
    st.builds(c.Down, channels),
    st.builds(c.Configure, settings_of_queues),
)


class Bench:
    """A node that writes commands, and reads them again."""

    def __init__(self) -> None:
        self.addresses = AddressTable(1, 1)
        for channel in CHANNELS:
            self.addresses.address_of(channel)
        self.decoder = CommandDecoder(self.addresses, window_of, Link)

    def encoded(self, command: c.Command) -> bytes:
        return encode_command(command, self.addresses)

    def back(self, command: c.Command) -> c.Command:
        return self.decoder.decode(self.encoded(command))


def facts(each: object) -> object:
    """All that a command says."""
    if isinstance(each, Consumer):
        names = ("channel", "tag", "no_ack", "exclusive", "priority", "arguments")
        return [each.prefetch.limit, *(getattr(each, name) for name in names)]
    if isinstance(each, Link):
        return each.sender
    if isinstance(each, c.Publish | c.Settle | c.Consume | c.Cancel | c.Get | c.Inspect | Batch):
        return [type(each), *(facts(getattr(each, name)) for name in each.__slots__)]
    if isinstance(each, c.Purge | c.Delete | c.Down | c.Configure):
        return [type(each), *(facts(getattr(each, name)) for name in each.__slots__)]
    return each


@given(commands)
def test_every_command_comes_back_as_it_was(command: c.Command) -> None:
    assert facts(Bench().back(command)) == facts(command)


@given(commands)
def test_the_same_command_is_the_same_bytes(command: c.Command) -> None:
    bench = Bench()
    assert bench.encoded(bench.back(command)) == bench.encoded(command)


@given(consumers)
def test_a_cancel_names_the_consumer_that_has_come(consumer: Consumer) -> None:
    bench = Bench()
    consume, cancel = c.Consume(consumer), c.Cancel(consumer)
    come = bench.back(consume)
    gone = bench.back(cancel)
    assert isinstance(come, c.Consume)
    assert isinstance(gone, c.Cancel)
    assert gone.consumer is come.consumer
    assert not bench.decoder.consumers
    with pytest.raises(UnreadableCommand, match="none came"):
        bench.back(cancel)


def test_consumers_go_with_their_channel() -> None:
    bench = Bench()
    for channel in CHANNELS:
        for tag in ("a", "b"):
            bench.back(c.Consume(consumer_of(channel, tag)))
    bench.back(c.Down(CHANNELS[0]))
    assert bench.decoder.consumers.keys() == {*CHANNELS[1:]}


def test_every_type_of_command_has_a_number() -> None:
    assert {*ENCODERS} == {*c.Command.__args__}  # type: ignore[attr-defined]
    assert [kind for kind, _ in ENCODERS.values()] == [*DECODERS]


@given(commands, st.data())
def test_what_is_cut_or_has_something_behind_it_is_refused(command: c.Command, data: Any) -> None:
    bench = Bench()
    encoded = bench.encoded(command)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with pytest.raises(UnreadableCommand):
        bench.decoder.decode(cut)
    with pytest.raises(UnreadableCommand):
        bench.decoder.decode(encoded + b"\0")


@given(commands, st.data())
def test_what_is_cut_with_its_length_is_refused_or_another(command: c.Command, data: Any) -> None:
    """The length in the head fits; so it is the body that says it. Nothing but a refusal comes."""
    bench = Bench()
    kind, flags, length = HEAD.unpack_from(encoded := bench.encoded(command))
    size = data.draw(st.integers(0, length + 8))
    body = (encoded[HEAD.size :] + b"\0" * 8)[:size]
    altered = HEAD.pack(kind, flags, size) + body
    if size == length:
        return
    if isinstance(command, c.Configure):
        return  # what is cut may be JSON still
    with pytest.raises(UnreadableCommand):
        bench.decoder.decode(altered)


@given(st.integers(0, 12), st.integers(0, 8), st.binary(max_size=200))
def test_any_bytes_are_a_command_or_refused(kind: int, flags: int, body: bytes) -> None:
    bench = Bench()
    known = ActorAddress(1, 1, 1).encode()
    for data in (body, HEAD.pack(kind, flags, len(body)) + body):
        try_decode(bench, data)
    try_decode(bench, HEAD.pack(kind, flags, len(body) + len(known)) + known + body)


def try_decode(bench: Bench, data: bytes) -> None:
    try:
        command = bench.decoder.decode(data)
    except (UnreadableCommand, UnknownAddress) as error:
        assert str(error)
    else:
        assert type(command) in ENCODERS


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes are too few for a command"),
        (HEAD.pack(99, 0, 0), "command type 99 is not known here: it is of a later version"),
        (HEAD.pack(5, 4, 0), "flags 4 of a get are not known here"),
        (HEAD.pack(6, 0, 7), "a inspect of 7 bytes has 0"),
        (HEAD.pack(2, 0, 24) + bytes(20) + b"\3\0\0\0", "outcome 3 of a settle is not known here"),
        (HEAD.pack(10, 0, 1) + b"x", "are no JSON"),
        (HEAD.pack(10, 0, 2) + b"[]", "are no object"),
        (HEAD.pack(10, 0, 40_000) + b"[" * 40_000, "are no JSON"),
        (HEAD.pack(10, 0, 12) + b'{"newer": 1}', "the setting 'newer' of a queue is not known"),
        (HEAD.pack(10, 0, 11) + b'{"lazy": 1}', "the setting 'lazy' of a queue is no"),
    ],
)
def test_it_is_said_what_is_wrong(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableCommand, match=re.escape(said)):
        Bench().decoder.decode(data)


@given(st.sampled_from([c.Inspect, c.Purge, c.Down]))
def test_an_actor_of_elsewhere_is_unknown_until_somebody_stands_for_it(kind: Any) -> None:
    there = AddressTable(2, 5)
    far = bystander()
    data = encode_command(kind(far), there)
    bench = Bench()
    with pytest.raises(UnknownAddress, match="of node 2, and nobody on node 1") as refusal:
        bench.decoder.decode(data)
    stands = bystander()
    bench.addresses.stand_for(refusal.value.address, stands)
    read = bench.decoder.decode(data)
    assert isinstance(read, kind)
    assert read.channel is stands
    assert bench.encoded(read) == data


def test_what_is_of_no_meaning_elsewhere_is_left_out() -> None:
    batch = batch_of([b"xx", b"yy"], channel_number=3, copies=17, first_id=99)
    back = Bench().back(c.Publish(batch, Link(CHANNELS[0]), 1, True))
    assert isinstance(back, c.Publish)
    assert (back.batch.traits.copies, back.batch.first_id) == (1, 0)


def test_the_example_is_what_is_written() -> None:
    shown = [
        bytes.fromhex("".join(line[10:] for line in dump.splitlines()))
        for dump in re.findall(r"```text\n(.*?)```", EXAMPLE, re.DOTALL)
    ]
    batch = batch_of([b"hello", b"world"], b"\x00\x06orders", persistent=True)
    publish = c.Publish(batch, Link(CHANNELS[0]), 41, True)
    settle = c.Settle(c.LinkId(3, 2), [(7, 0, 2)], c.ACK)
    bench = Bench()
    assert [bench.encoded(each) for each in (publish, settle)] == shown
