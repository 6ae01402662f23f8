"""Cuts a run of publishes: in two, when credit does not go further, or to handle it in pieces; and
into stretches of messages that are treated alike.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from sluicemq.amqp.events import AnyPublishes, MixedKeyPublishes, Publishes
from sluicemq.model.batch import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
K = TypeVar("K")


def split(run: AnyPublishes, count: int) -> tuple[AnyPublishes, AnyPublishes]:
    """Return the first `count` contents of a run, and the rest."""
    if isinstance(run, MixedKeyPublishes):
        return split_mixed_keys(run, count)
    assert isinstance(run, Publishes)
    first = run.contents[:count]
    size = size_of(first, run.same_size)
    rest = run.contents[count:]
    channel, raw, method = run.channel, run.raw_method, run.method
    alike = run.same_properties, run.same_size
    return (
        Publishes(channel, raw, method, first, size, *alike),
        Publishes(channel, raw, method, rest, run.size - size, *alike),
    )


def split_mixed_keys(
    run: MixedKeyPublishes, count: int
) -> tuple[MixedKeyPublishes, MixedKeyPublishes]:
    """Split a run of publishes with different methods, as `split` does."""
    channel, raws, methods, contents = run.channel, run.raw_methods, run.methods, run.contents
    return (
        MixedKeyPublishes(channel, raws[:count], methods[:count], contents[:count]),
        MixedKeyPublishes(channel, raws[count:], methods[count:], contents[count:]),
    )


def stretches(keys: Iterable[K], items: list[T]) -> Iterator[tuple[K, list[T]]]:
    """Yield the items in stretches of equal keys, each with its key. Items beyond the last key are
    left out."""
    start = 0
    for key, some in groupby(keys):
        end = start + sum(1 for _ in some)
        yield key, items[start:end]
        start = end
