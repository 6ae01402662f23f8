"""Goal: a client that lives is never given up, a silent one is after two intervals.

Method: the looks of a connection by hand, and any run of them beside a plain count.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.chain.connection.heartbeats import SILENT_LOOKS_MAX, Heartbeats


def test_a_heartbeat_is_due_when_nothing_was_taken() -> None:
    heartbeat = Heartbeats()
    assert heartbeat.look(0, 0, is_read=True, excused=False)
    assert not heartbeat.look(0, 8, is_read=True, excused=False)
    assert heartbeat.look(0, 8, is_read=True, excused=False)


def test_silence_of_two_intervals_is_the_end() -> None:
    heartbeat = Heartbeats()
    for _ in range(SILENT_LOOKS_MAX - 1):
        heartbeat.look(0, 0, is_read=True, excused=False)
        assert not heartbeat.is_over
    heartbeat.look(0, 0, is_read=True, excused=False)
    assert heartbeat.is_over


def test_what_the_system_takes_is_a_sign_of_life_only_while_nothing_is_read() -> None:
    reading, paused = Heartbeats(), Heartbeats()
    for taken in range(1, SILENT_LOOKS_MAX + 1):
        reading.look(0, taken, is_read=True, excused=False)
        paused.look(0, taken, is_read=False, excused=False)
    assert reading.is_over
    assert not paused.is_over


LOOKS = st.lists(
    st.tuples(st.sampled_from((0, 0, 1)), st.sampled_from((0, 0, 1)), st.booleans(), st.booleans()),
    max_size=30,
)


@given(LOOKS)
def test_only_looks_without_any_sign_in_a_row_count(
    looks: list[tuple[int, int, bool, bool]],
) -> None:
    heartbeat = Heartbeats()
    received = taken = silent = 0
    for more_received, more_taken, is_read, excused in looks:
        received += more_received
        taken += more_taken
        due = heartbeat.look(received, taken, is_read, excused)
        assert due is (more_taken == 0)
        signs = more_received or excused or (more_taken and not is_read)
        silent = 0 if signs else silent + 1
        assert heartbeat.is_over is (silent >= SILENT_LOOKS_MAX)
