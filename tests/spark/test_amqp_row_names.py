"""Goal: rows are numbered among their equals, however many come and however they are cut.

Method: any octets, against a plain count. No Spark session.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.spark.row_names import DIGEST_SIZE, EqualCounter, digest, names_of

few = st.lists(st.integers(0, 5), min_size=1, max_size=30)


@given(st.lists(few, min_size=1, max_size=30))
def test_equal_rows_are_numbered_from_zero(batches: list[list[int]]) -> None:
    counter = EqualCounter()
    seen: Counter[int] = Counter()
    for batch in batches:
        digests = [digest(b"%d" % each) for each in batch]
        octets = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_SIZE)
        wanted = []
        for each in batch:
            wanted.append(seen[each])
            seen[each] += 1
        assert counter.number(octets).tolist() == wanted


def test_what_is_kept_to_count_stays_in_few_arrays() -> None:
    """A search in each of them is made for each batch."""
    counter = EqualCounter()
    for size in [1000, *range(900, 0, -1)]:
        counter.number(np.random.default_rng(size).integers(0, 256, (size, DIGEST_SIZE), np.uint8))
    sizes = [len(array) for array in counter._arrays]
    assert sum(sizes) == 1000 + sum(range(1, 901))
    assert all(large > 2 * small for large, small in pairwise(sizes))


def test_a_name_is_the_digest_and_the_number() -> None:
    counter = EqualCounter()
    key = digest(b"what stands before the body")
    digests = [digest(b"a", key), digest(b"b", key), digest(b"a", key)]
    names = [each.tobytes().decode() for each in names_of(digests, counter)]
    a, b = digests[0].hex(), digests[1].hex()
    assert names == [f"{a}-000000000000", f"{b}-000000000000", f"{a}-000000000001"]
    assert digest(b"a") != digests[0]
