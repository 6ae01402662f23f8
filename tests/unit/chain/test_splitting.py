"""Goal: a run that is cut in two is the same run. Method: every cut of runs of every kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.events import MixedKeyPublishes, Publishes
from sluicemq.amqp.methods import BasicPublish
from sluicemq.chain.splitting import split


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1), st.data())
def test_runs_of_mixed_sizes(contents: list[bytes], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(contents)))
    method = BasicPublish("", "q")
    size = sum(map(len, contents))
    run = Publishes(3, b"raw", method, contents, size, False, False)
    for part, wanted in zip(split(run, count), (contents[:count], contents[count:]), strict=True):
        assert isinstance(part, Publishes)
        assert (part.channel, part.raw_method, part.method) == (3, b"raw", method)
        assert part.contents == wanted
        assert part.size == sum(map(len, wanted))
        assert (part.same_properties, part.same_size) == (False, False)


@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_runs_of_one_size(length: int, count: int, same_properties: bool) -> None:
    contents = [bytes(length) for _ in range(count)]
    run = Publishes(
        1, b"raw", BasicPublish("", "q"), contents, length * count, same_properties, True
    )
    for at in range(count + 1):
        first, rest = split(run, at)
        assert (first.size, rest.size) == (length * at, length * (count - at))
        assert isinstance(first, Publishes)
        assert isinstance(rest, Publishes)
        assert (first.same_properties, first.same_size, rest.same_properties, rest.same_size) == (
            same_properties,
            True,
        ) * 2


@given(st.integers(2, 20), st.data())
def test_runs_with_methods_of_their_own(count: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, count - 1))
    methods = [BasicPublish("", str(number)) for number in range(count)]
    raws = [method.frame(1) for method in methods]
    contents = [b"%4d" % number for number in range(count)]
    first, rest = split(MixedKeyPublishes(1, raws, methods, contents), at)
    assert isinstance(first, MixedKeyPublishes)
    assert isinstance(rest, MixedKeyPublishes)
    assert first.methods + rest.methods == methods
    assert first.raw_methods + rest.raw_methods == raws
    assert first.contents + rest.contents == contents
    assert (len(first.methods), len(first.contents), first.size) == (at, at, 4 * at)
    assert rest.size == 4 * (count - at)
