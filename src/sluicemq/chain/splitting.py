"""Cuts a run of publishes in two: when credit does not go further, or to handle it in pieces."""

from __future__ import annotations

from sluicemq.amqp.events import AnyPublishes, MixedKeyPublishes, Publishes
from sluicemq.model.batch import size_of


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
