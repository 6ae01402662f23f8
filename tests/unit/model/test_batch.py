"""Goal: what a queue accounts for a batch is what it gives back, however the batch is taken apart.
Method: properties over any contents.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.model.batch import OVERHEAD_BYTES, footprint, size_of

mixed_sizes = st.lists(st.integers(0, 50).map(bytes), max_size=30)
same_sizes = st.tuples(st.integers(0, 50), st.integers(0, 30)).map(
    lambda sn: [bytes(sn[0])] * sn[1]
)


@given(st.one_of(mixed_sizes, same_sizes), st.integers(1, 7), st.data())
def test_footprint_is_additive_over_any_split(
    contents: list[bytes], copies: int, data: st.DataObject
) -> None:
    same_size = len(set(map(len, contents))) <= 1
    whole = footprint(contents, same_size, copies)
    cut = data.draw(st.integers(0, len(contents)))
    step = data.draw(st.integers(1, 4))
    parts = [contents[cut:], *(contents[index:cut:step] for index in range(step))]
    assert sum(footprint(part, same_size, copies) for part in parts) == whole
    assert sum(footprint([content], False, copies) for content in contents) == whole


@given(same_sizes, st.integers(1, 7))
def test_short_cut_for_contents_of_one_size_gives_the_same(
    contents: list[bytes], copies: int
) -> None:
    assert size_of(contents, True) == size_of(contents, False) == len(b"".join(contents))
    assert footprint(contents, True, copies) == footprint(contents, False, copies)


@given(mixed_sizes, st.integers(1, 7))
def test_all_copies_together_cost_the_contents_once_and_an_overhead_each(
    contents: list[bytes], copies: int
) -> None:
    """Up to the bytes that division leaves over."""
    together = copies * footprint(contents, False, copies)
    exact = size_of(contents, False) + copies * OVERHEAD_BYTES * len(contents)
    assert exact - copies * len(contents) < together <= exact or not contents
