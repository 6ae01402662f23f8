"""Goal: a mirror has the messages that its log says, whatever rows they are in and however they are
removed; mirrors that apply the same entries are equal byte by byte, whoever has read a snapshot on
the way; what they need of the log is what has not been removed, and is left when it is trimmed.

Method: entries made by Hypothesis, as bytes, for two mirrors and a model in plain dicts
(`mirrored_bench.py`); one of the mirrors becomes what a snapshot says now and then.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.queues.command_codec import HEAD, UnreadableCommand
from sluicemq.queues.mirrored import commands as m
from sluicemq.queues.mirrored import snapshot
from sluicemq.queues.mirrored.command_codec import (
    DECODERS,
    decode_entry,
    encode_entry,
    runs_of,
    trimmed,
)
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirrored_rows import MirroredRow
from sluicemq.queues.mirrored.snapshot import digest_of
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.positions import first_of_priority
from support.thorough import examples

from .mirrored_bench import MirrorModel, run_of
from .test_fifo_codec import DOCUMENT

PRIORITIES = (0, 3)
members = st.integers(1, 4)
ops = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PRIORITIES), st.integers(1, 9), st.integers(0, 4)),
    st.tuples(st.just("remove"), st.integers(0, 99), st.integers(1, 3), st.integers(1, 30)),
    st.tuples(st.just("mark"), st.sampled_from(PRIORITIES), st.integers(0, 60), st.just(0)),
    st.tuples(
        st.sampled_from(["begin", "join", "drop", "hold", "release"]),
        members,
        st.just(0),
        st.just(0),
    ),
)
entries = st.lists(st.tuples(st.lists(ops, min_size=1, max_size=4), st.booleans()), max_size=25)
OF_MEMBERS: dict[str, Any] = {
    "begin": m.BeginMastership,
    "join": m.JoinMirror,
    "hold": m.HoldMirror,
    "release": m.ReleaseMirror,
}


class MirrorBench:
    """Two mirrors, a model, and the bytes of all entries."""

    def __init__(self) -> None:
        self.one, self.other, self.model = Mirror(), Mirror(), MirrorModel()
        self.entries: dict[int, bytes] = {}
        self.next = {priority: first_of_priority(priority) for priority in PRIORITIES}
        self.contents: dict[int, bytes] = {}

    def command(self, op: tuple[Any, ...]) -> m.MirrorCommand | None:
        """What a step says; None: nothing that could be said now."""
        word, number, count, more = op
        if word == "write":
            first = self.next[number] + more % 3  # a gap now and then
            self.next[number] = first + count
            contents = [b"%d" % each * (1 + more * each % 3) for each in range(count)]
            self.contents |= {first + at: each for at, each in enumerate(contents)}
            return m.WriteMessages(run_of(first, contents, expiry=more * 1000))
        if word == "remove":
            known = sorted(self.contents)
            if not known:
                return None
            start = known[number % len(known)]
            return m.RemoveMessages((range(start, start + count * more, count),))
        if word == "mark":
            return m.MarkDelivered(first_of_priority(number) + count)
        if word == "drop":
            return m.DropMirror(number, "it is slow")
        command: m.MirrorCommand = OF_MEMBERS[word](number)
        return command

    def enter(self, steps: list[tuple[Any, ...]], restores: bool) -> None:
        """Apply an entry to all."""
        commands = [each for each in map(self.command, steps) if each is not None]
        if not commands:
            return
        data = encode_entry(commands)
        index = len(self.entries) + 1
        self.entries[index] = data
        self.model.apply(index, commands)
        effects: list[list[m.MirrorEffect]] = [[], []]
        for mirror, said in zip((self.one, self.other), effects, strict=True):
            mirror.entered(index, index)
            for command in decode_entry(data):
                mirror.apply(command, said)
        assert effects[0] == effects[1]
        if restores:
            pieces = [*self.other.snapshot()]
            self.other = Mirror()
            self.other.restore(pieces)
        assert [*self.one.snapshot()] == [*self.other.snapshot()]

    def check(self) -> None:
        """Hold the mirrors against the model."""
        for mirror in (self.one, self.other):
            live = {
                index: {each for part in places for each in part} for index, places in mirror.live()
            }
            assert live == self.model.live()
            assert [*live] == sorted(live)
            assert mirror.messages == len(self.model.messages)
            sizes = {
                position: size
                for run in mirror.runs()
                for part in run.positions
                for position, size in zip(part, run.sizes_at(part), strict=True)
            }
            assert sizes == {at: len(self.contents[at]) for at in self.model.messages}
            for priority in PRIORITIES:
                first = first_of_priority(priority)
                assert mirror.delivered(first) == max(first, self.model.marks.get(priority, 0))
        found: dict[int, bytes] = {}
        for index, places in self.one.live():
            kept = trimmed(self.entries[index], places)
            assert trimmed(kept, places) == kept
            for _, run in runs_of(kept):
                assert run.contents is not None
                found |= dict(zip(run.positions, run.contents, strict=True))
        assert found == {position: self.contents[position] for position in self.model.messages}


@given(entries)
@examples(80)
def test_a_mirror_is_what_its_log_says(rolled: list[tuple[list[tuple[Any, ...]], bool]]) -> None:
    bench = MirrorBench()
    for steps, restores in rolled:
        bench.enter(steps, restores)
    bench.check()


def test_what_is_gone_takes_no_room() -> None:
    row = MirroredRow(0)
    mirror = Mirror()
    for position in range(1000):
        mirror.entered(position + 1, 0)
        mirror.apply(m.WriteMessages(run_of(position, [b"x"])), [])
        if position >= 10:
            mirror.apply(m.RemoveMessages((range(position - 10, position - 9),)), [])
    row = mirror.rows[0]
    assert row.messages == 10
    assert len(row._runs) <= 2 * 10 + 1
    assert next(mirror.live()) == (991, [range(1)])
    assert mirror.released == 990


commands = st.one_of(
    st.builds(
        lambda first, contents, expiry: m.WriteMessages(run_of(first, contents, expiry)),
        st.integers(0, 1 << 50),
        st.lists(st.binary(max_size=9), min_size=1, max_size=5),
        st.integers(0, 1 << 50),
    ),
    st.builds(
        lambda start, step, count: m.RemoveMessages((range(start, start + step * count, step),)),
        st.integers(0, 1 << 50),
        st.integers(1, 9),
        st.integers(1, 9),
    ),
    st.builds(m.MarkDelivered, st.integers(0, 1 << 60)),
    *(st.builds(kind, members) for kind in OF_MEMBERS.values()),
    st.builds(m.DropMirror, members, st.text(max_size=9)),
)


def content(command: m.MirrorCommand) -> Any:
    """What is in a command, less the messages."""
    if isinstance(command, m.WriteMessages):
        run = command.run
        return run.positions, run.sizes, run.same_size, run.expiry, run.traits
    return type(command), command


@given(st.lists(commands, min_size=1, max_size=6))
def test_an_entry_is_read_as_it_was_written(said: list[m.MirrorCommand]) -> None:
    data = encode_entry(said, b"head")
    read = decode_entry(data, 4)
    assert [*map(content, read)] == [*map(content, said)]
    assert not any(each.run.contents for each in read if isinstance(each, m.WriteMessages))
    writes = [each.run for each in said if isinstance(each, m.WriteMessages)]
    place = 0
    for written, (at, run) in zip(writes, runs_of(data, 4), strict=True):
        assert (at, run.contents, run.positions) == (place, written.contents, written.positions)
        assert run.traits == written.traits
        place += run.count


@given(st.lists(commands, min_size=1, max_size=3), st.integers(0, 1 << 16), st.data())
def test_what_is_left_of_an_entry_is_what_is_needed(
    said: list[m.MirrorCommand], bits: int, data: st.DataObject
) -> None:
    entry = encode_entry(said)
    fewer = bits & data.draw(st.integers(0, 1 << 16))
    at_once = trimmed(entry, ranges_of(fewer, 0))
    assert trimmed(trimmed(entry, ranges_of(bits, 0)), ranges_of(fewer, 0)) == at_once
    needed = {place for part in ranges_of(fewer, 0) for place in part}
    left = {place + each for place, run in runs_of(at_once) for each in range(run.count)}
    assert left == needed & {p + each for p, run in runs_of(entry) for each in range(run.count)}


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    try:
        decode_entry(data)
        runs_of(data)
    except UnreadableCommand:
        pass


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0\0\0", "too few for a command"),
        (HEAD.pack(99, 0, 0), "type 99, flags 0 of a command"),
        (HEAD.pack(23, 4, 0), "type 23, flags 4 of a command"),
        (HEAD.pack(23, 0, 8), "a command of 8 bytes has 0"),
        (HEAD.pack(23, 0, 9) + bytes(9), "has 1 bytes too many"),
        (HEAD.pack(22, 0, 0), "has 0 bytes of positions"),
        (HEAD.pack(22, 0, 16) + bytes(16), "a range of no positions"),
        (HEAD.pack(21, 0, 32) + bytes(32), "a write has no run of messages"),
    ],
)
def test_what_is_no_entry_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(UnreadableCommand, match=text):
        decode_entry(data)


def test_a_write_has_one_batch() -> None:
    data = encode_entry([m.WriteMessages(run_of(7, [b"a", b"b"]))])
    assert len(runs_of(data)) == 1
    longer = HEAD.pack(21, 0, len(data) - HEAD.size + 1) + data[HEAD.size :] + b"c"
    with pytest.raises(UnreadableCommand, match="another run"):
        runs_of(longer)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda _: [], "is none"),
        (lambda pieces: [b"\xc0", *pieces[1:]], "is none"),
        (lambda pieces: pieces[:-1], "without its end"),
        (lambda pieces: [pieces[0], *pieces[2:]], "missing"),
        (lambda pieces: [*pieces, pieces[-1]], "too many"),
        (lambda pieces: [pieces[0], pieces[1], *pieces[1:]], "no run of 2 messages at 0"),
        (lambda pieces: [pieces[0], snapshot.ENCODER.encode((5, [])), pieces[-1]], "no row 5"),
    ],
)
def test_what_is_no_snapshot_is_refused_and_changes_nothing(change: Any, text: str) -> None:
    mirror = Mirror()
    mirror.entered(1, 1)
    mirror.apply(m.WriteMessages(run_of(0, [b"a", b"b"])), [])
    was = digest_of(mirror)
    with pytest.raises(ValueError, match=text):
        mirror.restore(change([*mirror.snapshot()]))
    assert digest_of(mirror) == was


def test_a_snapshot_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MACHINE_VERSION", 2)
    pieces = [*Mirror().snapshot()]
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 2 of 'sluicemq mirror'"):
        Mirror().restore(pieces)


def test_the_document_has_every_type() -> None:
    table = re.findall(r"^\| (\d+) \| [a-z-]+ \|", DOCUMENT.read_text(), re.MULTILINE)
    assert {*map(int, table)} >= {*DECODERS}
