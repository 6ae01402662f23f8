"""Goal: mirrors hear of every message that comes and goes in a master's queue, also of transient
ones, and of what went only when they have heard that it came; nothing is delivered that the next
master would not flag; a new master has what the mirror has, with bodies from the log.

Method: a master over a mirror that applies its entries when the test says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.flow.link import Link
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import ACK, Delete, Get, Publish, Purge, Settle
from sluicemq.queues.effects import Confirm, Effect, Got
from sluicemq.queues.mirrored.command_codec import decode_entry, encode_entry, runs_of, trimmed
from sluicemq.queues.mirrored.commands import (
    BeginMastership,
    MarkDelivered,
    MirrorCommand,
    RemoveMessages,
    WriteMessages,
)
from sluicemq.queues.mirrored.group_standing import GroupStanding
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.queues.settings import NO_SETTINGS, QueueSettings
from sluicemq.replication.mirrored_master import MirroredMaster
from support.batches import batch_of
from unit.queues.indices import new_index

AHEAD = 4
BOUNDS = MirrorBounds(mark_ahead=AHEAD)


class Life:
    """A mirrored queue of one member, whose masters come and go."""

    def __init__(self, settings: QueueSettings = NO_SETTINGS) -> None:
        self.settings = settings
        self.mirror = Mirror()
        self.log: dict[int, bytes] = {}
        self.channel = Actor(Scheduler())
        self.link = Link(self.channel)
        self.next_seq = 1
        self.begin()

    def begin(self) -> None:
        """A new master."""
        self.actor = Actor(Scheduler())
        self.machine = ClassicQueue(
            "q", False, self.actor, new_index(), 4096, self.settings, is_mirrored=True
        )
        self.master = MirroredMaster(self.machine, self.mirror, 1, BOUNDS, 0)
        self.real: list[Effect] = []
        self.agree()

    def do(self, *commands: Any) -> list[Effect]:
        """What becomes real in a turn with these commands."""
        effects: list[Effect] = []
        for command in commands:
            self.machine.apply(command, effects)
            for _ in self.machine.rest or ():
                pass
            self.machine.rest = None
        return self.master.take(effects)

    def publish(self, *bodies: bytes, persistent: bool = True, priority: int = 0) -> Publish:
        same_size = len({*map(len, bodies)}) == 1
        batch = batch_of([*bodies], persistent=persistent, priority=priority, same_size=same_size)
        publish = Publish(batch, self.link, self.next_seq, confirm=True)
        self.next_seq += len(bodies)
        return publish

    def agree(self) -> tuple[list[MirrorCommand], list[Effect]]:
        """Have the next entry agreed on; what it says, and what becomes real then."""
        commands = self.master.mastership.take_entry()
        if commands:
            index = len(self.log) + 1
            self.log[index] = encode_entry(commands)
            self.master.mastership.proposed(index, len(self.log[index]))
            self.mirror.entered(index, 0)
            for command in decode_entry(self.log[index]):
                self.mirror.apply(command, [])
        effects: list[Effect] = []
        self.master.confirm(self.standing(), effects)
        return commands, self.master.take(effects)

    def standing(self) -> GroupStanding:
        return GroupStanding(len(self.log), {1: len(self.log)}, frozenset())

    def read(self) -> None:
        """Read the bodies that are wanted, from entries that are trimmed to what is needed."""
        live = dict(self.mirror.live())
        for chunk in self.machine.bodies_wanted(True):
            indexes = self.master.entries_of(chunk)
            self.master.got_entries(
                chunk, [trimmed(self.log[each], live[each]) for each in indexes]
            )

    def get(self, count: int, no_ack: bool = False) -> list[Got]:
        """Get messages, whatever has to be read and agreed on for that."""
        found = self.do(*(Get(self.channel, no_ack) for _ in range(count)))
        for _ in range(2 * count):
            self.read()
            effects: list[Effect] = []
            self.machine.serve(effects)
            found += self.master.take(effects)
            found += self.agree()[1]
        return [each for each in found if isinstance(each, Got)]


def bodies(gots: list[Got]) -> list[tuple[bytes | None, bool]]:
    return [(each.content, each.redelivered) for each in gots]


@pytest.mark.parametrize("persistent", [True, False])
def test_mirrors_hear_of_all_messages_and_then_publishers_do(persistent: bool) -> None:
    life = Life()
    assert life.do(life.publish(b"a", b"b", persistent=persistent)) == []
    said, real = life.agree()
    assert [type(each) for each in said] == [WriteMessages]
    assert [run.contents for _, run in runs_of(life.log[2])] == [[b"a", b"b"]]
    assert [(each.first_seq, each.count) for each in real if isinstance(each, Confirm)] == [(1, 2)]


def test_what_comes_and_goes_before_its_entry_is_in_none() -> None:
    """It is confirmed once it is delivered, which waits for the mark."""
    life = Life()
    life.get(0)
    publish = life.publish(b"a", b"b")
    assert life.do(publish, Get(life.channel, True), Get(life.channel, True)) == []
    said, real = life.agree()
    assert [type(each) for each in said] == [MarkDelivered]
    assert sorted(type(each).__name__ for each in real) == ["Confirm", "Got", "Got"]
    life.do(life.publish(b"c"), Purge(life.channel))
    assert life.agree()[0] == []
    life.do(life.publish(b"d"))
    life.agree()
    life.begin()
    assert [body for body, _ in bodies(life.get(2))] == [b"d", None]


def test_what_is_gone_of_a_batch_is_removed_behind_it() -> None:
    life = Life()
    life.do(life.publish(*(b"%d" % each for each in range(7))))
    life.master.mastership.remove(range(0, 7, 3))
    said, _ = life.agree()
    assert [type(each) for each in said] == [WriteMessages, RemoveMessages]
    assert [run.contents for _, run in runs_of(life.log[2])] == [[b"1", b"2", b"3", b"4", b"5"]]
    assert [run.positions for run in life.mirror.runs()] == [[range(1, 3), range(4, 6)]]


def test_what_not_all_mirrors_have_is_under_way() -> None:
    """In no entry, in one that was made and in one that is committed but not everywhere."""
    life = Life()
    mastership = life.master.mastership
    life.do(life.publish(*(b"%d" % each for each in range(7))))
    mastership.remove(range(2))
    assert mastership.under_way == 5
    mastership.take_entry()
    mastership.proposed(2, 9, is_whole=False)
    life.do(life.publish(b"more"))
    assert mastership.under_way == 6
    mastership.proposed(3, 9)
    mastership.confirmed(GroupStanding(2, {1: 2}, frozenset()))
    assert mastership.under_way == 6
    mastership.confirmed(GroupStanding(3, {1: 3}, frozenset()))
    assert mastership.under_way == 1


def test_a_mark_does_not_take_messages_with_it_that_wait() -> None:
    """They are in the entry after it, and confirmed with that one."""
    life = Life()
    life.get(0)
    mastership = life.master.mastership
    standing = GroupStanding(99, {1: 99}, frozenset())
    life.do(life.publish(b"a", b"b"), Get(life.channel, False))
    assert mastership.entry_wait_ms(standing, is_consumed=True) == 0
    assert [type(each) for each in mastership.take_entry()] == [MarkDelivered]
    mastership.proposed(2, 9)
    assert mastership.confirmed(standing) == []
    assert mastership.under_way == 2
    assert [type(each) for each in mastership.take_entry()] == [WriteMessages]
    mastership.proposed(3, 9)
    assert len(mastership.confirmed(standing)) == 1


def test_nothing_is_delivered_that_would_come_again_unflagged() -> None:
    life = Life()
    life.do(life.publish(*(b"%d" % each for each in range(9))))
    life.agree()
    assert life.do(Get(life.channel, False)) == []
    assert [each.content for each in life.agree()[1] if isinstance(each, Got)] == [b"0"]
    assert life.mirror.delivered(0) == 1 + AHEAD
    more = life.do(*(Get(life.channel, False) for _ in range(4)))
    assert [each.content for each in more if isinstance(each, Got)] == [b"1", b"2", b"3", b"4"]
    life.begin()
    expected = [(b"%d" % each, each < life.mirror.delivered(0)) for each in range(9)]
    assert life.mirror.delivered(0) >= 5
    assert bodies(life.get(9)) == expected


def test_a_new_master_has_what_the_mirror_has() -> None:
    life = Life(QueueSettings(max_priority=2))
    life.do(life.publish(b"low", b"lower"), life.publish(b"high", b"higher", priority=2))
    life.agree()
    (got,) = life.get(1)
    assert got.content == b"high"
    life.do(Settle(got.link, [(got.run, 0, 1)], ACK), life.publish(b"last"))  # type: ignore[arg-type]
    life.agree()
    life.begin()
    assert (life.machine.depth.ready, life.machine.depth.ready_bytes) == (4, 18)
    life.do(life.publish(b"new"))
    life.agree()
    assert [body for body, _ in bodies(life.get(5))] == [
        b"higher",
        b"low",
        b"lower",
        b"last",
        b"new",
    ]
    assert life.machine.depth.ready == 0
    assert life.machine.depth.footprint > 0


def test_what_was_dropped_or_deleted_is_gone_from_the_mirrors() -> None:
    life = Life(QueueSettings(max_length=2))
    life.do(life.publish(*(b"%d" % each for each in range(5))))
    effects: list[Effect] = []
    life.machine.enforce(1, effects)
    life.master.take(effects)
    life.agree()
    assert [run.positions for run in life.mirror.runs()] == [[range(3, 5)]]
    life.begin()
    life.do(Delete(None, if_unused=False, if_empty=False))
    life.agree()
    assert life.mirror.messages == 0


def test_a_master_begins_with_saying_so() -> None:
    life = Life()
    assert decode_entry(life.log[1]) == [BeginMastership(1)]
    assert life.mirror.in_sync.members == (1,)


def test_a_body_that_is_not_in_the_log_is_a_message_that_is_gone() -> None:
    life = Life()
    life.do(life.publish(b"a"), life.publish(b"bb"))
    life.agree()
    life.begin()
    (first, second) = life.machine.bodies_wanted(True)
    life.master.got_entries(first, [])
    life.master.got_entries(second, [life.log[index] for index in life.master.entries_of(second)])
    assert life.machine.depth.ready == 1
    assert bodies(life.get(1)) == [(b"bb", False)]
