"""Goal: a run that is cut in two is the same run. Method: every cut of runs of every kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.events import Publishes, VariedPublishes
from sluicemq.amqp.methods import BasicPublish
from sluicemq.chain.splitting import split


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1), st.data())
def test_uneven_runs(contents: list[bytes], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(contents)))
    method = BasicPublish("", "q")
    size = sum(map(len, contents))
    run = Publishes(3, b"raw", method, contents, size, False, False)
    for part, wanted in zip(split(run, count), (contents[:count], contents[count:]), strict=True):
        assert isinstance(part, Publishes)
        assert (part.channel, part.raw_method, part.method) == (3, b"raw", method)
        assert part.contents == wanted
        assert part.size == sum(map(len, wanted))
        assert (part.uniform, part.even) == (False, False)


@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_even_runs(length: int, count: int, uniform: bool) -> None:
    contents = [bytes(length) for _ in range(count)]
    run = Publishes(1, b"raw", BasicPublish("", "q"), contents, length * count, uniform, True)
    for at in range(count + 1):
        first, rest = split(run, at)
        assert (first.size, rest.size) == (length * at, length * (count - at))
        assert isinstance(first, Publishes)
        assert isinstance(rest, Publishes)
        assert (first.uniform, first.even, rest.uniform, rest.even) == (uniform, True) * 2


@given(st.integers(2, 20), st.data())
def test_runs_with_methods_of_their_own(count: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, count - 1))
    methods = [BasicPublish("", str(number)) for number in range(count)]
    raws = [method.frame(1) for method in methods]
    contents = [b"%4d" % number for number in range(count)]
    first, rest = split(VariedPublishes(1, raws, methods, contents), at)
    assert isinstance(first, VariedPublishes)
    assert isinstance(rest, VariedPublishes)
    assert first.methods + rest.methods == methods
    assert first.raw_methods + rest.raw_methods == raws
    assert first.contents + rest.contents == contents
    assert (len(first.methods), len(first.contents), first.size) == (at, at, 4 * at)
    assert rest.size == 4 * (count - at)
