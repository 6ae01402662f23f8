"""Goal: a quorum queue on three nodes keeps what it has promised, whatever happens to nodes and
links; and a bug in how it does so is found.

Method: whole brokers and clients by chance; in every second run snapshots are so near that who
lags behind is sent one. Then bugs are planted.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.first_seeds import is_caught, planted
from sim.shared_quorum_bench import SharedRun
from sluicemq.chain.queue.group import snapshots
from sluicemq.chain.queue.quorum import shell as shell_module
from sluicemq.chain.queue.quorum.asking import Asking
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.queues.quorum.askers import Askers
from sluicemq.queues.quorum.commands import Enqueue
from sluicemq.queues.quorum.effects import FifoEffect
from sluicemq.queues.quorum.fifo import HANDLERS, Fifo
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.leading import Leading

SEEDS = 16
CANARY_SEEDS = 50


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_doubled_or_out_of_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        near_snapshots(monkeypatch)
    SharedRun(seed).run()


def near_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shell_module, "QUORUM_SNAPSHOT_ENTRIES", 4)
    patch.setattr(snapshots, "ROWS_AN_ENTRY", 1000)


def nothing_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Asking, "begin_anew", lambda _: None)


def repeats_are_new(patch: pytest.MonkeyPatch) -> None:
    """Of what comes again nobody knows that it has come."""
    patch.setattr(Askers, "is_new", lambda *_: True)
    enqueue = Fifo.enqueue

    def forgetful(fifo: Fifo, command: Enqueue, effects: list[FifoEffect]) -> None:
        enqueuer = fifo.enqueuers.members.get(command.sender)
        if enqueuer is not None and command.first_seq < enqueuer.next_seq:
            enqueuer.next_seq = command.first_seq
        enqueue(fifo, command, effects)

    patch.setitem(HANDLERS, Enqueue, forgetful)


def what_is_proposed_is_agreed_on(patch: pytest.MonkeyPatch) -> None:
    """A leader waits for nobody, not even for its own disk."""
    propose = Leading.propose

    def hasty(leading: Leading, data: EntryData) -> int:
        index = propose(leading, data)
        if index:
            leading.commit(index)
        return index

    patch.setattr(Leading, "propose", hasty)


def one_disk_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    """An entry is agreed on as soon as anybody has it."""

    def agreed(configuration: Configuration, index_of: Callable[[int], int]) -> int:
        return max(map(index_of, configuration.voters))

    patch.setattr(Configuration, "agreed", agreed)


def a_new_leader_says_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharedShell, "begin_leading", lambda _: None)


BUGS = (
    nothing_is_sent_again,
    repeats_are_new,
    what_is_proposed_is_agreed_on,
    one_disk_is_a_majority,
    a_new_leader_says_nothing,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda each: each.__name__)
def test_a_planted_bug_is_caught(bug: Callable[[pytest.MonkeyPatch], None], rewrite: bool) -> None:
    def fails(seed: int) -> bool:
        with planted(bug):
            try:
                SharedRun(seed).run()
            except AssertionError:
                return True
            return False

    name = f"shared quorum: {bug.__name__}"
    assert is_caught(name, range(CANARY_SEEDS), fails, rewrite), "nobody has noticed"
