"""Goal: a command of a quorum queue that was written is read as it was; what is none of ours,
damaged, or of a later version, is refused with a sentence.

Method: commands of every type made by Hypothesis, there and back, many in an entry; each cut; any
bytes at all; bodies beside what the state needs of them; and the example in docs/command-format.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicemq.amqp.types import encode_table
from sluicemq.kernel.address import ActorAddress
from sluicemq.model.batch import ENVELOPED, Batch, are_same_size
from sluicemq.queues import command_codec
from sluicemq.queues.command_codec import HEAD, UnreadableCommand
from sluicemq.queues.commands import Configure
from sluicemq.queues.quorum import command_codec as fifo_codec
from sluicemq.queues.quorum import commands as c
from sluicemq.queues.quorum.command_codec import (
    DECODERS,
    ENCODERS,
    decode_entry,
    encode_entry,
    enqueue_of,
)
from sluicemq.queues.quorum.commands import ConsumerKey
from sluicemq.queues.quorum.entry_content import STAMP, EntryContent
from sluicemq.queues.quorum.trimming import bodies_of
from sluicemq.text import text_of
from support.batches import batch_of
from support.thorough import examples

from .fifo_bench import content_of, settings_of_fifos

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "command-format.md"
EXAMPLE = DOCUMENT.read_text(encoding="utf-8").partition("### An entry")[2].partition("\n## ")[0]

addresses = st.builds(ActorAddress, st.integers(1, U32), st.integers(1, U32), st.integers(1, U64))
texts = st.binary(min_size=1, max_size=20).map(text_of)
keys = st.builds(ConsumerKey, addresses, texts)
numbers = st.integers(0, U64)
ids = st.tuples(st.integers(0, 99), st.integers(1, 99)).map(lambda each: (each[0], sum(each)))


@st.composite
def enqueues(draw: st.DrawFn) -> c.Enqueue:
    sizes = draw(
        st.lists(st.integers(0, 300), min_size=1, max_size=5)
        | st.builds(lambda size, count: [size] * count, st.integers(0, 9), st.integers(1, 9))
    )
    contents = [content_of(size) for size in sizes]
    envelope = draw(st.binary(min_size=1, max_size=20))
    if draw(st.booleans()):
        envelope = ENVELOPED
        contents = [b"\x01e\x02k" + bytes([n]) + content for n, content in enumerate(contents)]
    batch = batch_of(
        contents,
        envelope,
        same_size=len(set(map(len, contents))) == 1,
        persistent=draw(st.booleans()),
        channel_number=draw(st.integers(0, 65535)),
        ttl_ms=draw(st.none() | numbers),
        priority=draw(st.integers(0, 255)),
    )
    return enqueue_of(batch, draw(addresses), draw(st.integers(1, U64 - 9)), draw(numbers))


commands = st.one_of(
    enqueues(),
    st.builds(c.RegisterEnqueuer, addresses),
    st.builds(
        c.AddConsumer,
        keys,
        st.integers(0, U32),
        st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        st.booleans(),
        st.dictionaries(st.text(max_size=5), st.booleans(), max_size=3).map(encode_table),
    ),
    st.builds(c.CancelConsumer, keys),
    st.builds(c.SettleDelivered, keys, st.lists(ids, max_size=5).map(tuple), st.integers(0, 3)),
    st.builds(c.ResumeConsumer, keys, numbers),
    st.builds(c.GetMessage, addresses, st.booleans()),
    st.builds(c.PurgeQueue, addresses),
    st.builds(c.DeleteFifo, st.none() | addresses, st.booleans(), st.booleans()),
    st.builds(c.AddressDown, addresses, st.booleans()),
    st.builds(c.NodeRestarted, st.integers(0, U32), st.integers(0, U32)),
    st.just(c.UseQueue()),
    st.just(c.PassTime()),
    st.builds(c.CompareState, st.integers(0, (1 << 64) - 1), st.binary(min_size=16, max_size=16)),
    st.builds(c.Asked, addresses, numbers),
    st.builds(Configure, settings_of_fifos),
)


def content(command: c.FifoCommand) -> Any:
    """What a command says, to be compared, without its bodies."""
    if isinstance(command, c.Enqueue):
        return {slot: getattr(command, slot) for slot in command.__slots__ if slot != "batch"}
    return command.settings if isinstance(command, Configure) else command


def shown(batch: Batch) -> tuple[object, ...]:
    properties = batch.properties.ttl_ms, batch.properties.priority
    return batch.traits, properties, batch.contents, batch.size, batch.same_size


@given(st.lists(commands, min_size=1, max_size=4))
def test_there_and_back(wanted: list[c.FifoCommand]) -> None:
    data = encode_entry(wanted)
    found = decode_entry(data)
    assert [type(each) for each in found] == [type(each) for each in wanted]
    assert [content(each) for each in found] == [content(each) for each in wanted]
    assert not any(isinstance(each, c.Enqueue) and each.batch for each in found)


@given(st.lists(commands, min_size=1, max_size=4))
def test_there_and_back_when_all_messages_are_gone(wanted: list[c.FifoCommand]) -> None:
    """The state is made of the same commands, and the entry is no longer than they are."""
    for each in wanted:
        if isinstance(each, c.Enqueue):
            each.batch = None
    data = encode_entry(wanted)
    assert [content(each) for each in decode_entry(data)] == [content(each) for each in wanted]
    assert bodies_of(data) == []


def read(data: bytes) -> list[Any] | None:
    """What is in an entry; None: it cannot be read."""
    try:
        return [content(each) for each in decode_entry(data)]
    except UnreadableCommand:
        return None


@examples(5)
@example(c.SettleDelivered(ConsumerKey(ActorAddress(1, 2, 3), "c"), ((5, 6),), 0), False)
@example(c.Asked(ActorAddress(1, 2, 3), 4), False)
@given(
    enqueues()
    | st.builds(c.SettleDelivered, keys, st.lists(ids, max_size=2).map(tuple), st.integers(0, 3))
    | st.builds(c.Asked, addresses, numbers),
    st.booleans(),
)
def test_usual_commands_are_read_as_all_others_are(
    command: c.FifoCommand, is_bodiless: bool
) -> None:
    """With any byte of their heads changed, too: then both find the same in it, or both nothing."""
    if isinstance(command, c.Enqueue) and is_bodiless:
        command.batch = None
    data = bytearray(encode_entry([command]))
    with patch.object(fifo_codec, "put_usual", lambda *_: False):
        assert encode_entry([command]) == data, "they are written as all others are, too"
    for at in range(min(len(data), 110)):
        was = data[at]
        for more in (0, 1, 255):
            data[at] = (was + more) & 255
            quick = read(bytes(data))
            with patch.object(fifo_codec, "usual_command", lambda *_: None):
                assert read(bytes(data)) == quick
        data[at] = was


@given(st.lists(commands, min_size=1, max_size=4))
def test_what_came_in_bytes_lets_go_of_bodies_too(wanted: list[c.FifoCommand]) -> None:
    """When all messages are gone the entry has what one has that was proposed here, and so is the
    same in segments of all members."""
    there = EntryContent(STAMP.pack(7) + encode_entry(wanted))
    there.decoded()
    there.messages_gone()
    here = EntryContent(b"", wanted, 7)
    here.was_written()
    here.messages_gone()
    assert (bytes(there), len(there)) == (bytes(here), len(bytes(here)))
    assert bodies_of(bytes(there), STAMP.size) == there.batches() == []
    for each in (there, here):
        each.messages_gone()  # a second time, though its bytes are kept
    assert bytes(there) == bytes(here)


@given(st.lists(commands, min_size=1, max_size=4))
def test_bodies(wanted: list[c.FifoCommand]) -> None:
    batches = [each.batch for each in wanted if isinstance(each, c.Enqueue) and each.batch]
    found = bodies_of(encode_entry(wanted))
    assert [shown(each.batch) for each in found] == [shown(each) for each in batches]


@given(enqueues())
def test_sizes_are_those_of_bodies(command: c.Enqueue) -> None:
    assert command.batch is not None
    bodies = [len(each.rpartition(b"\xce")[0]) for each in command.batch.contents]
    sizes = command.sizes or [command.size] * command.count
    skip = 5 if command.batch.traits.envelope == ENVELOPED else 0
    assert [len(content_of(size)) - 1 + skip for size in sizes] == bodies


def test_alike_in_length_and_not_in_bodies() -> None:
    """Two contents of one length, of which one has a longer head and a shorter body."""
    longer = b"\x02\x00\x01\x00\x00\x00\x0f\x00\x3c\x00\x00" + (1).to_bytes(8) + b"\x80\x00\x00\xce"
    contents = [content_of(2), longer + b"\x03\x00\x01" + (1).to_bytes(4) + b"x\xce"]
    assert {*map(len, contents)} == {len(longer) + 9}
    batch = batch_of(contents, same_size=are_same_size(contents))
    command = enqueue_of(batch, ActorAddress(1, 1, 1), 1, 1)
    assert command.sizes == [2, 1]
    assert content(decode_entry(encode_entry([command]))[0])["sizes"] == [2, 1]


@given(commands, st.data())
def test_what_is_cut_is_refused(command: c.FifoCommand, data: st.DataObject) -> None:
    raw = encode_entry([command])
    end = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(UnreadableCommand):
        decode_entry(raw[:end])


@given(commands, st.binary(min_size=1, max_size=9))
def test_a_body_with_bytes_too_many_is_refused(command: c.FifoCommand, more: bytes) -> None:
    raw = encode_entry([command])
    kind, flags, length = HEAD.unpack_from(raw)
    raw = HEAD.pack(kind, flags, length + len(more)) + raw[HEAD.size :] + more
    with pytest.raises(UnreadableCommand):
        decode_entry(raw)


@given(st.binary(max_size=200), st.sampled_from([*DECODERS]), st.integers(0, 31))
def test_any_bytes_are_a_command_or_are_refused(data: bytes, kind: int, flags: int) -> None:
    raw = HEAD.pack(kind, flags, len(data)) + data
    try:
        assert len(decode_entry(raw)) == 1
    except UnreadableCommand as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "0 bytes are too few"),
        (HEAD.pack(6, 0, 0), "type 6 is not known here"),
        (HEAD.pack(17, 1, 0), "flags 1 of a pass-time"),
        (HEAD.pack(13, 0, 28) + bytes(16) + b"\x00\x00\x00\x00\x04" + bytes(7), "outcome 4"),
        (HEAD.pack(13, 0, 44) + bytes(16) + b"\x01" + bytes(27), "no later one"),
        (HEAD.pack(11, 0, 60) + bytes(60), "no messages"),
        (
            HEAD.pack(11, 16, 64) + bytes(16) + b"\x01" + bytes(23) + b"\x01" + bytes(23),
            "it has some",
        ),
        (HEAD.pack(3, 0, 36) + bytes(36), "no tag"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, text: str) -> None:
    with pytest.raises(UnreadableCommand, match=text):
        decode_entry(data)


def test_a_settle_of_nothing_is_not_written() -> None:
    key = ConsumerKey(ActorAddress(1, 1, 1), "c")
    with pytest.raises(AssertionError, match="a settle of nothing"):
        encode_entry([c.SettleDelivered(key, ((0, 0),), 0)], bytes(8))


def test_every_type_has_one_number() -> None:
    assert {kind for kind, _ in ENCODERS.values()} == {*DECODERS}
    words = {kind: word for kind, (word, _, _) in DECODERS.items()}
    shared = {kind: command_codec.DECODERS[kind][0] for kind in command_codec.DECODERS}
    assert all(words[kind] == shared[kind] for kind in words.keys() & shared.keys())


def test_the_document_has_every_type_and_the_example() -> None:
    table = dict(re.findall(r"^\| (\d+) \| ([a-z-]+) \|", DOCUMENT.read_text(), re.MULTILINE))
    assert {int(kind): word for kind, word in table.items()}.items() >= {
        (kind, word) for kind, (word, _, _) in DECODERS.items()
    }
    rows = re.findall(r"^[0-9a-f]{8}  ((?:[0-9a-f]{2} {1,2})*[0-9a-f]{2})$", EXAMPLE, re.MULTILINE)
    found = decode_entry(bytes.fromhex(" ".join(rows)))
    key = ConsumerKey(ActorAddress(1, 1, 1), "ctag")
    assert content(found[0])["size"] == 5
    assert content(found[0])["first_seq"] == 41
    assert found[1:] == [c.SettleDelivered(key, ((7, 9),), 0)]
