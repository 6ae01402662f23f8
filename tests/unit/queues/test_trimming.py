"""Goal: of an entry that is trimmed the messages at the places that are needed stay as they were,
and nothing else; to trim it in steps, or at once, is the same byte by byte. What is cut out of an
entry for a delivery is what the entry has there.

Method: entries of any commands made by Hypothesis, trimmed to any places, held against all that is
in the entry; any bytes at all; sizes are counted.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.kernel.address import ActorAddress
from sluicemq.model.batch import Batch
from sluicemq.queues.command_codec import HEAD, UnreadableCommand
from sluicemq.queues.quorum import commands as c
from sluicemq.queues.quorum.command_codec import DECODERS, encode_entry, enqueue_of
from sluicemq.queues.quorum.placed_contents import placed_in
from sluicemq.queues.quorum.trimming import ENQUEUE, KEPT, bodies_of, trimmed
from sluicemq.storage.bits import ranges_of
from support.batches import batch_of

from .fifo_bench import content_of
from .test_fifo_codec import DOCUMENT, commands

PLACES_MAX = 40

entries = st.lists(commands, min_size=1, max_size=4).map(encode_entry)
bits = st.integers(0, (1 << PLACES_MAX) - 1)


def traits_of(batch: Batch) -> tuple[Any, ...]:
    return batch.traits, batch.properties.ttl_ms, batch.properties.priority


def by_place(data: bytes) -> dict[int, tuple[Any, ...]]:
    """Each message of an entry, whole or trimmed."""
    found: dict[int, tuple[Any, ...]] = {}
    for first, end, batch in bodies_of(data):
        assert end - first == len(batch.contents) > 0
        assert batch.size == sum(map(len, batch.contents))
        assert not batch.same_size or len({*map(len, batch.contents)}) == 1
        for place, content in enumerate(batch.contents, start=first):
            assert place not in found
            found[place] = (content, *traits_of(batch))
    return found


@given(st.lists(commands, min_size=1, max_size=4))
def test_a_whole_entry_has_its_batches_one_behind_the_other(wanted: list[c.FifoCommand]) -> None:
    batches = [each.batch for each in wanted if isinstance(each, c.Enqueue) and each.batch]
    found = bodies_of(encode_entry(wanted))
    assert [(traits_of(each.batch), each.batch.contents) for each in found] == [
        (traits_of(each), each.contents) for each in batches
    ]
    assert [place for each in found for place in range(each.first, each.end)] == [
        *range(sum(len(each.contents) for each in batches))
    ]


@given(entries, bits)
def test_what_is_needed_stays_and_nothing_else(data: bytes, needed: int) -> None:
    places = ranges_of(needed, 0)
    wanted = {place for each in places for place in each}
    left = trimmed(data, places)
    all_of_it = by_place(data)
    assert by_place(left) == {place: all_of_it[place] for place in all_of_it.keys() & wanted}
    assert [*by_place(left)] == sorted(by_place(left))


@given(entries, bits, st.integers(1, 3))
def test_what_is_cut_out_is_what_is_there(whole: bytes, needed: int, step: int) -> None:
    for data in (whole, trimmed(whole, ranges_of(needed, 0))):
        all_of_it = by_place(data)
        found = placed_in(b"12345678" + data, 8)
        assert [place for each in found for place in range(each.first, each.end)] == [*all_of_it]
        for each in found:
            for first in range(each.first, each.end):
                places = range(first, each.end, step)
                count = 1 + (len(places) - 1) // 2
                contents = each.cut(places.start, places.step, count)
                wanted = [all_of_it[place] for place in places[:count]]
                assert [(content, each.traits) for content in contents] == [
                    (content, traits) for content, traits, *_ in wanted
                ]
                assert not each.same_size or len({*map(len, contents)}) == 1


@given(entries, bits, bits)
def test_in_steps_is_as_at_once(data: bytes, first: int, second: int) -> None:
    before = ranges_of(first, 0)
    after = ranges_of(first & second, 0)
    assert trimmed(trimmed(data, before), after) == trimmed(data, after)
    assert trimmed(trimmed(data, before), before) == trimmed(data, before)


@given(st.binary(max_size=200), st.sampled_from([*DECODERS, KEPT]), st.integers(0, 15))
def test_any_bytes_are_an_entry_or_are_refused(data: bytes, kind: int, flags: int) -> None:
    raw = HEAD.pack(kind, flags, len(data)) + data
    try:
        assert bodies_of(raw) == [] or kind in (ENQUEUE, KEPT)
        assert len(placed_in(raw, 0)) == len(bodies_of(raw))
    except UnreadableCommand:
        with pytest.raises(UnreadableCommand):
            trimmed(raw, [range(1)])
        with pytest.raises(UnreadableCommand):
            placed_in(raw, 0)


@given(entries, bits, st.data())
def test_what_is_cut_is_refused(whole: bytes, needed: int, data: st.DataObject) -> None:
    left = trimmed(whole, ranges_of(needed, 0))
    if left:
        _, _, length = HEAD.unpack_from(left)
        end = data.draw(st.integers(1, HEAD.size + length - 1))
        with pytest.raises(UnreadableCommand):
            bodies_of(left[:end])
        with pytest.raises(UnreadableCommand):
            placed_in(left[:end], 0)


def test_a_message_of_a_hundred_costs_little_more_than_itself() -> None:
    batch = batch_of([content_of(1024) for _ in range(100)])
    data = encode_entry([enqueue_of(batch, ActorAddress(1, 1, 1), 1, 1)])
    left = trimmed(data, [range(57, 58)])
    assert len(left) < 1024 + 120
    assert len(trimmed(data, [range(100)])) < len(data)


def test_the_document_has_the_type_of_what_is_left() -> None:
    assert re.search(rf"^\| {KEPT} \| kept \|", DOCUMENT.read_text(), re.MULTILINE)
    assert KEPT not in DECODERS, "it is never applied"


def test_other_commands_leave_nothing() -> None:
    assert trimmed(encode_entry([c.UseQueue(), c.PassTime()]), [range(9)]) == b""
