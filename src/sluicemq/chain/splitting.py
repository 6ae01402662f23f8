"""Cuts a run of publishes in two: when credit does not go further, or to handle it in pieces."""

from __future__ import annotations

from sluicemq.amqp.connection import AnyPublishes, Publishes, VariedPublishes
from sluicemq.model.batch import size_of


def split(run: AnyPublishes, count: int) -> tuple[AnyPublishes, AnyPublishes]:
    """Return the first `count` contents of a run, and the rest."""
    if isinstance(run, VariedPublishes):
        return split_varied(run, count)
    assert isinstance(run, Publishes)
    first = run.contents[:count]
    size = size_of(first, run.even)
    rest = run.contents[count:]
    channel, raw, method = run.channel, run.raw_method, run.method
    alike = run.uniform, run.even
    return (
        Publishes(channel, raw, method, first, size, *alike),
        Publishes(channel, raw, method, rest, run.size - size, *alike),
    )


def split_varied(run: VariedPublishes, count: int) -> tuple[VariedPublishes, VariedPublishes]:
    """Split a run of publishes with different methods, as `split` does."""
    channel, raws, methods, contents = run.channel, run.raw_methods, run.methods, run.contents
    return (
        VariedPublishes(channel, raws[:count], methods[:count], contents[:count]),
        VariedPublishes(channel, raws[count:], methods[count:], contents[count:]),
    )
