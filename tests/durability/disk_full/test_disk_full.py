"""Goal: a full disk only makes publishers wait. Method: the real broker on a small tmpfs, filled by
pika clients; an operator who makes space is a ballast file that is deleted.

Two ways to be full: below `disk_free_limit` (an alarm, as RabbitMQ has it), and really full, with
that limit at 0, when the system refuses to write. tmpfs gives no promise after a crash of the
machine, but kill -9 leaves it as it was.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from durability.disk_full.publisher import (
    PATIENCE_SECONDS,
    Publisher,
    declare,
    drain,
    wait_for,
)
from durability.disk_full.volume import MIB, Volume, volume
from support.broker import NotReady, Target
from support.thorough import thorough

NO_LIMIT = "storage.disk_free_limit_absolute=0"
SIZES = (3500, 20_000)
"""Bodies in the queue's own files, and in the message store."""
LIMIT_MIB = 8
CALM_SECONDS = 3.0
"""So long nothing more is confirmed: then the disk is full indeed."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Volume]:
    with volume(tmp_path) as made:
        yield made


def await_standstill(publisher: Publisher, disk: Volume) -> None:
    """Until there is little space, and nothing has been confirmed for a while, although messages
    wait for it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    since, confirmed = time.monotonic(), -1
    while time.monotonic() - since < CALM_SECONDS:
        assert time.monotonic() < deadline, "the disk does not fill up"
        assert publisher.is_alive(), "the broker closed the connection"
        if len(publisher.confirmed) != confirmed or disk.free_bytes() > LIMIT_MIB * MIB:
            since, confirmed = time.monotonic(), len(publisher.confirmed)
        time.sleep(0.02)
    assert publisher.published > publisher.settled, "nothing waits for a confirm"


def await_told(target: Target) -> str:
    """What a client is told that publishes now. (One that has published all it may before the alarm
    was raised is not told before it publishes again; as with RabbitMQ.)"""
    late = Publisher(target, "late", 100, window=1)
    late.start()
    wait_for(lambda: late.blocked, "publishers are told")
    late.finish()
    assert late.settled <= 1, "confirmed, although blocked"  # what it was stopped at still counts
    return late.blocked


def check(found: list[int], publisher: Publisher) -> None:
    """All that was promised is there, in order, once, and nothing that was never sent."""
    assert publisher.refused == set()
    missing = publisher.confirmed.difference(found)
    assert not missing, f"{len(missing)} of {len(publisher.confirmed)} confirmed messages are lost"
    assert found == sorted(set(found)), "doubled or out of order"
    assert not found or found[-1] < publisher.published


@pytest.mark.parametrize("body_bytes", thorough(SIZES[:1], SIZES))
def test_below_the_limit_publishers_are_told_figures_and_wait(
    disk: Volume, body_bytes: int
) -> None:
    target = disk.start(f"storage.disk_free_limit_absolute={LIMIT_MIB * MIB}")
    declare(target, "q", "late")
    publisher = Publisher(target, "q", body_bytes)
    publisher.start()
    await_standstill(publisher, disk)
    reason = await_told(target)
    figures = re.search(r"disk \(free ([\d.]+) MiB, limit ([\d.]+) MiB\)", reason)
    assert figures is not None, f"blocked without figures: {reason}"
    assert float(figures[1]) <= float(figures[2]) == LIMIT_MIB
    confirmed = len(publisher.confirmed)
    assert disk.free_bytes() > 0, "the alarm came too late"
    disk.make_space()
    wait_for(lambda: len(publisher.confirmed) > confirmed + 100, "it goes on")
    publisher.finish()
    check(drain(target, "q"), publisher)
    assert disk.stop() == 0


@pytest.mark.parametrize("body_bytes", thorough(SIZES[1:], SIZES))
def test_full_to_the_brim_it_waits_and_goes_on_by_itself(disk: Volume, body_bytes: int) -> None:
    target = disk.start(NO_LIMIT)
    declare(target, "q", "late")
    publisher = Publisher(target, "q", body_bytes)
    publisher.start()
    await_standstill(publisher, disk)
    assert "low on disk (" in await_told(target)
    confirmed = len(publisher.confirmed)
    disk.make_space()
    wait_for(lambda: len(publisher.confirmed) > confirmed + 100, "it goes on")
    publisher.finish()
    disk.kill()
    target = disk.start(NO_LIMIT)
    check(drain(target, "q"), publisher)
    assert disk.stop() == 0


@pytest.mark.parametrize("body_bytes", SIZES)
def test_killed_while_full_it_comes_back_with_everything(disk: Volume, body_bytes: int) -> None:
    """At once, or, if it cannot start without space, when there is some; it says so then."""
    target = disk.start(NO_LIMIT)
    declare(target, "q", "late")
    publisher = Publisher(target, "q", body_bytes)
    publisher.start()
    await_standstill(publisher, disk)
    disk.kill()
    publisher.finish()
    try:
        target = disk.start(NO_LIMIT)
    except NotReady:
        assert re.search("^Error: .*: ENOSPC; make space on that disk$", disk.logged(), re.M)
        disk.make_space()
        target = disk.start(NO_LIMIT)
    check(drain(target, "q"), publisher)
    assert disk.stop() == 0
    target = disk.start(NO_LIMIT)
    assert drain(target, "q") == []


@pytest.mark.parametrize("body_bytes", SIZES)
def test_consumers_make_space(disk: Volume, body_bytes: int) -> None:
    """What they acknowledge must be written down and cleared away on a disk that is full."""
    target = disk.start(NO_LIMIT)
    declare(target, "q", "late")
    publisher = Publisher(target, "q", body_bytes)
    publisher.start()
    await_standstill(publisher, disk)
    confirmed = len(publisher.confirmed)
    found: list[int] = []

    def goes_on() -> bool:
        """Takes what has come meanwhile, too: one message keeps the whole file that it is in."""
        found.extend(drain(target, "q"))
        return len(publisher.confirmed) > confirmed + 100

    wait_for(goes_on, "publishers go on")
    publisher.finish()
    disk.kill()
    target = disk.start(NO_LIMIT)
    again = drain(target, "q")
    assert publisher.confirmed.difference(found, again) == set()
    assert again == sorted(set(again))


def test_stopped_while_full_it_ends_and_comes_back(disk: Volume) -> None:
    """SIGTERM: a clean end if there is space for one, in any case an end in time."""
    target = disk.start(NO_LIMIT)
    declare(target, "q", "late")
    publisher = Publisher(target, "q", SIZES[0])
    publisher.start()
    await_standstill(publisher, disk)
    disk.stop()
    publisher.finish()
    disk.make_space()
    target = disk.start(NO_LIMIT)
    check(drain(target, "q"), publisher)


def test_a_disk_that_fills_up_under_traffic_again_and_again(disk: Volume) -> None:
    """Publishers and consumers go on while somebody else's file takes the space and gives it
    back."""
    disk.make_space()
    target = disk.start(NO_LIMIT)
    declare(target, "q", "late")
    publisher = Publisher(target, "q", 5000)
    publisher.start()
    found: list[int] = []
    for _ in range(3):
        with disk.ballast.open("wb", buffering=0) as file:
            while disk.free_bytes():
                file.write(bytes(min(MIB, disk.free_bytes())))
        await_standstill(publisher, disk)
        disk.make_space()
        confirmed = len(publisher.confirmed)
        wait_for(lambda least=confirmed: len(publisher.confirmed) > least + 100, "it goes on")
        found += drain(target, "q")
    publisher.finish()
    disk.kill()
    target = disk.start(NO_LIMIT)
    again = drain(target, "q")
    assert publisher.confirmed.difference(found, again) == set()
