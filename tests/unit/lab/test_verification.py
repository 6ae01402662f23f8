"""Goal: loss, duplicates and disorder are found, exactly. Method: plant them, count them."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.lab.measurements import Verification
from sluicemq.lab.stamp import MAGIC
from sluicemq.lab.verification import (
    NACKED,
    PENDING,
    PROMISED,
    DeliveredReport,
    Inspector,
    PublishedReport,
    count_missing,
    verify,
)

PUBLISHER = 7


def deliver(
    inspector: Inspector, last: dict[int, int], seqs: Iterable[int], again: bool = False
) -> None:
    numbers = tuple(seqs)
    count = len(numbers)
    publishers = (PUBLISHER,) * count
    inspector.check(last, (MAGIC,) * count, publishers, numbers, (int(again),) * count)


def judge(promises: bytes, *runs: Iterable[int], left: int | None = 0) -> Verification:
    """One consumer gets the runs, one publisher had these promises."""
    inspector = Inspector([PUBLISHER], len(promises) + 10)
    last = inspector.last_seen()
    for run in runs:
        deliver(inspector, last, run)
    published = PublishedReport({PUBLISHER: promises})
    return verify([published], [inspector.report()], left)


def test_a_clean_run_has_nothing_to_find() -> None:
    result = judge(bytes([PROMISED]) * 10, range(4), range(4, 10))
    assert (result["published"], result["confirmed"], result["delivered"]) == (10, 10, 10)
    assert result["drained"]
    for name in ("lost", "duplicates", "out_of_order", "redelivered", "foreign", "unsettled"):
        assert result[name] == 0


def test_a_confirmed_message_that_never_arrived_is_lost() -> None:
    result = judge(bytes([PROMISED]) * 10, [0, 1, 2], [5, 6, 7, 8, 9])
    assert result["lost"] == 2
    assert not result["drained"]


def test_what_is_still_in_the_queues_is_not_lost() -> None:
    result = judge(bytes([PROMISED]) * 10, range(6), left=3)
    assert (result["left_in_queues"], result["lost"]) == (3, 1)


def test_a_broker_that_cannot_be_asked_is_not_accused() -> None:
    result = judge(bytes([PROMISED]) * 10, range(6), left=None)
    assert (result["unaccounted"], result["lost"]) == (4, 0)


def test_only_confirmed_messages_are_promised() -> None:
    promises = bytes([PROMISED, PENDING, NACKED, PROMISED])
    result = judge(promises, [0, 3])
    assert (result["published"], result["confirmed"]) == (4, 2)
    assert (result["nacked"], result["unsettled"], result["lost"]) == (1, 1, 0)


def test_a_duplicate_without_the_flag_is_found() -> None:
    result = judge(bytes([PROMISED]) * 5, range(5), [4], [2])
    assert (result["duplicates"], result["delivered"], result["lost"]) == (2, 7, 0)


def test_a_message_behind_a_later_one_is_out_of_order() -> None:
    result = judge(bytes([PROMISED]) * 5, [0, 2, 1, 3, 4])
    assert (result["out_of_order"], result["duplicates"], result["lost"]) == (1, 0, 0)


def test_a_redelivery_is_counted_and_excused() -> None:
    inspector = Inspector([PUBLISHER], 10)
    one, other = inspector.last_seen(), inspector.last_seen()
    deliver(inspector, one, range(5))
    deliver(inspector, other, [2, 1], again=True)
    deliver(inspector, other, [5])
    report = inspector.report()
    assert (report.redelivered, report.duplicates, report.out_of_order) == (2, 0, 0)
    assert inspector.arrived == 6


def test_order_is_judged_by_consumer() -> None:
    """Two consumers of a queue each see their share in order, the two shares mixed."""
    inspector = Inspector([PUBLISHER], 10)
    one, other = inspector.last_seen(), inspector.last_seen()
    deliver(inspector, one, [0, 2, 4])
    deliver(inspector, other, [1, 3])
    assert inspector.out_of_order == 0
    assert inspector.arrived == 5


def test_deliveries_nobody_published_are_foreign() -> None:
    inspector = Inspector([PUBLISHER], 10)
    last = inspector.last_seen()
    inspector.check(last, (1,), (PUBLISHER,), (0,), (0,))
    inspector.check(last, (MAGIC, MAGIC), (PUBLISHER, 99), (0, 0), (0, 0))
    deliver(inspector, last, [1 << 40])
    assert inspector.foreign == 3
    deliver(inspector, last, [1, 2, 3])
    published = PublishedReport({PUBLISHER: bytes([PROMISED]) * 2})
    assert verify([published], [inspector.report()], 0)["foreign"] == 3 + 2


def test_without_confirms_all_that_the_broker_took_is_promised() -> None:
    published = PublishedReport({1: bytes([PROMISED]) * 3, 2: bytes([PENDING]) * 3}, confirms=False)
    delivered = DeliveredReport(seen={1: b"\1\1\0", 2: b"\1\0\0"}, delivered=3)
    result = verify([published], [delivered], 0)
    assert (result["confirmed"], result["lost"], result["unsettled"]) == (0, 1, 3)


@given(st.lists(st.sampled_from((PENDING, PROMISED, NACKED))), st.data())
def test_count_missing_counts_promised_and_unseen(promises: list[int], data: st.DataObject) -> None:
    seen = data.draw(st.lists(st.sampled_from((0, 1)), max_size=len(promises) + 3))
    expected = sum(
        promise == PROMISED and not (n < len(seen) and seen[n])
        for n, promise in enumerate(promises)
    )
    assert count_missing(bytes(promises), bytes(seen)) == expected


@given(st.permutations(range(12)), st.integers(1, 12))
def test_any_order_and_any_cut_give_the_same_counts(order: list[int], cut: int) -> None:
    """The fast way for a whole run and the slow way message by message agree."""
    whole = Inspector([PUBLISHER], 12)
    single = Inspector([PUBLISHER], 12)
    last_whole, last_single = whole.last_seen(), single.last_seen()
    for start in range(0, 12, cut):
        deliver(whole, last_whole, order[start : start + cut])
    for seq in order:
        single.check_one(last_single, MAGIC, PUBLISHER, seq, 0)
    assert whole.report() == single.report()
    disorder = sum(seq < max(order[:at], default=-1) for at, seq in enumerate(order))
    assert whole.out_of_order == disorder
