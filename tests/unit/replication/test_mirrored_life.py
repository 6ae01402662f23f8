"""Goal: mirrors have exactly what is in the queue of the master, whatever that is told and however
it pages, expires, drops and republishes; whoever becomes master goes on with that, and what was out
is flagged.

Method: the queue that pages and has limits beside a plain list (`limits_model.py`), of which a
mirror applies each turn's entry; now and then another master begins with the mirror.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sluicemq.queues.effects import Effect, Remove, Write
from sluicemq.queues.mirrored.command_codec import decode_entry, encode_entry
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.queues.settings import QueueSettings
from sluicemq.replication.mirrored_master import LOG_IDS, MirroredMaster
from support.files import DictFiles
from support.thorough import thorough
from unit.queues.limits_model import LimitedBench, tiny_limits
from unit.queues.paging_invariants import check
from unit.queues.paging_model import WINDOW, Bodies

LIVES = range(thorough(40, 2000))
STEPS = 150
BOUNDS = MirrorBounds(mark_ahead=3)
SETTINGS = (
    QueueSettings(),
    QueueSettings(message_ttl_ms=10),
    QueueSettings(max_length=6),
    QueueSettings(max_length=4, dead_letter_exchange="dlx"),
    QueueSettings(message_ttl_ms=50, dead_letter_exchange="dlx"),
)


class MirroredBench(LimitedBench):
    """A queue of which one mirror hears."""

    is_mirrored = True

    def new_queue(self) -> None:
        self.mirror = Mirror()
        self.log: dict[int, bytes] = {}
        super().new_queue()
        self.begin()

    def begin(self) -> None:
        """A new master, with what the mirror has."""
        self.master = MirroredMaster(self.machine, self.mirror, 1, BOUNDS, 0)

    def make_real(self, effects: list[Effect]) -> None:
        told: list[Effect] = [each for each in effects if isinstance(each, Write | Remove)]
        for effect in told:
            ids = effect.ids if isinstance(effect, Remove) else None
            if ids is not None and ids.start >= LOG_IDS:
                self.transient.remove(ids)
        real = self.master.take(told)
        self.master.mastership.marks.cover([mark.delivered for mark in self.machine.marks()])
        self.agree()
        super().make_real([*(each for each in effects if each not in told), *real])

    def agree(self) -> None:
        """The mirror applies the next entry."""
        commands = self.master.mastership.take_entry()
        if commands:
            index = len(self.log) + 1
            self.log[index] = encode_entry(commands)
            self.mirror.entered(index, 0)
            for command in decode_entry(self.log[index]):
                self.mirror.apply(command, [])

    def read_bodies(self) -> None:
        if not self.reads or self.reads[0][1].start < LOG_IDS:
            super().read_bodies()
            return
        chunk, _ = self.reads.pop(0)
        entries = [self.log[index] for index in self.master.entries_of(chunk)]
        self.master.got_entries(chunk, entries)
        self.turn()

    def fail_over(self) -> None:
        """The mirror of another node becomes master: what was out is back, and flagged."""
        for held in self.out.values():
            position = held.message.position
            assert position < self.mirror.delivered(position), "it would not be flagged"
            self.back(held.message)
        self.out = {}
        self.files, self.transient = DictFiles(), Bodies()
        for message in self.ready:
            position = message.position
            is_marked = position < self.mirror.delivered(position)
            assert is_marked or not message.redelivered
            message.redelivered = is_marked
            message.id = LOG_IDS + position
            self.transient.write(message.id, [message.content])
        pieces = [*self.mirror.snapshot()]
        super().new_queue()
        self.mirror = Mirror()
        self.mirror.restore(pieces)
        self.begin()
        self.turn()

    def check_mirror(self) -> None:
        """It has what is ready, and what is out."""
        mirrored = {each for run in self.mirror.runs() for part in run.positions for each in part}
        there = {message.position for message in self.ready} | self.out.keys()
        assert mirrored == there


def acts_of(bench: MirroredBench, dice: random.Random) -> list[tuple[int, Callable[[], None]]]:
    """What can happen, and how often."""
    n = dice.randrange
    return [
        (8, lambda: bench.publish(1 + n(6), n(6), n(2) > 0, 1 + n(3), n(4))),
        (2, lambda: bench.consume(n(2), n(6) == 0, n(6))),
        (3, lambda: bench.get(n(2), n(2) > 0)),
        (1, lambda: bench.cancel(n(3))),
        (6, lambda: bench.settle(n(40), 1 + n(6), n(3) > 0)),
        (2, lambda: bench.reject(n(40), 1 + n(6))),
        (4, lambda: bench.arrive(n(40))),
        (2, lambda: bench.down(n(2))),
        (3, lambda: bench.set_target(dice.choice((0, 0, 3, 12, None)))),
        (2, lambda: bench.pass_time(dice.choice((1, 10, 60)))),
        (12, bench.work),
        (8, bench.read_bodies),
        (2, bench.sync_journal),
        (1, lambda: bench.give_credit(dice.choice((0, 1, 4, WINDOW, WINDOW)))),
        (1, bench.purge),
        (1, bench.delete),
        (3, bench.fail_over),
    ]


def live(seed: int) -> MirroredBench:
    """A whole life, with habits of its own."""
    dice = random.Random(seed)
    highest = dice.choice((0, 0, 2))
    settings = dice.choice(SETTINGS)._replace(max_priority=highest or None)
    with tiny_limits():
        bench = MirroredBench(False, seed % 7 == 6, highest, settings)
        acts = acts_of(bench, dice)
        habits = [weight * dice.choice((0, 1, 1, 5)) for weight, _ in acts]
        habits[0] += 1
        for _ in range(STEPS):
            [(_, act)] = dice.choices(acts, habits)
            act()
            check(bench)
            bench.check_limits()
            bench.check_mirror()
        bench.drain()
        bench.check_mirror()
    return bench


@pytest.mark.parametrize("seed", LIVES)
def test_mirrors_have_what_is_in_the_queue(seed: int) -> None:
    live(seed)
