"""Strategies for runs and other entries."""

from __future__ import annotations

from hypothesis import strategies as st

from sluicemq.model.traits import message_traits
from sluicemq.storage.entries import (
    Ack,
    Definition,
    Delivered,
    Entry,
    QueueDeleted,
    Run,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
)

IDS = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 10**6)


@st.composite
def runs(draw: st.DrawFn, queues: st.SearchStrategy[int] = IDS, position_max: int = 2**60) -> Run:
    """Any run that an encoder takes."""
    same_size = draw(st.booleans())
    if same_size:
        size = draw(st.integers(0, 50))
        contents = draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=9))
    else:
        contents = draw(st.lists(st.binary(max_size=60), min_size=1, max_size=9))
    embedded = draw(st.booleans())
    return Run(
        draw(queues),
        draw(st.integers(0, position_max)),
        draw(st.integers(1, 1000)),
        len(contents),
        message_traits(
            draw(st.binary(max_size=40)), draw(st.integers(0, 65535)), draw(st.booleans())
        ),
        same_size,
        contents if embedded else None,
        [len(content) for content in contents],
        0 if embedded else draw(st.integers(1, 2**60)),
        draw(st.integers(1, 1000)),
        draw(st.one_of(st.just(0), IDS)),
    )


RANGES = st.builds(
    lambda first, step, count: range(first, first + step * count, step),
    st.integers(0, 2**60),
    st.integers(1, 2**32 - 1),
    st.integers(1, 2**32 - 1),
)

ENTRIES = st.one_of(
    runs(),
    st.builds(Ack, IDS, st.lists(RANGES, max_size=6)),
    st.builds(Delivered, IDS, IDS),
    st.builds(Definition, st.binary(max_size=60)),
    st.builds(QueueDeleted, IDS),
)


def encode(parts: list[bytes], entry: Entry) -> int:
    """Any entry."""
    if isinstance(entry, Run):
        return encode_run(parts, entry)
    if isinstance(entry, Ack):
        return encode_ack(parts, entry.queue, entry.ranges)
    if isinstance(entry, Delivered):
        return encode_deliver(parts, entry.queue, entry.position)
    if isinstance(entry, Definition):
        return encode_definition(parts, entry.change)
    return encode_queue_deleted(parts, entry.queue)


def encoded(entries: list[Entry]) -> bytes:
    """A payload."""
    parts: list[bytes] = []
    for entry in entries:
        encode(parts, entry)
    return b"".join(parts)


def same(entry: Entry) -> object:
    """What can be compared: a run by its fields."""
    if isinstance(entry, Run):
        return {name: getattr(entry, name) for name in Run.__slots__}
    return entry
