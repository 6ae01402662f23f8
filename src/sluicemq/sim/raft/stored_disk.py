"""A member's disk as it really is: the storage of Raft's logs in the node's journal and segments,
over simulated files. What it was handed, and what it has said is durable, is kept beside it, so
that what a start finds can be held against that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

from sluicemq.raft.entry import LogEntry
from sluicemq.sim.disk import SimFiles
from sluicemq.sim.raft.disk import Platter, RaftDisk, TakenSnapshot
from sluicemq.sim.raft.live_register import needed_of
from sluicemq.sim.raft.promise import rule
from sluicemq.sim.raft.store_node import StoreNode

if TYPE_CHECKING:
    from sluicemq.raft.durable import Durable
    from sluicemq.raft.entry import LogSnapshot
    from sluicemq.sim.raft.events import Events


class StoredDisk(RaftDisk):
    """`platter` is what the storage has said is durable, `waiting` what it was handed since."""

    needed_of: Callable[[bytes], bytes] = staticmethod(needed_of)
    """Returns what is needed of an entry, if that is all that there is to be known of it."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimFiles()
        self.node: StoreNode | None = None
        self.taken: TakenSnapshot | None = None
        """A snapshot of the member's own that is on its way."""
        self.is_damaged = False
        """A start has found that something is lost."""

    def start(
        self, events: Events, heard: Callable[[object], None], may_run: Callable[[], bool]
    ) -> StoreNode:
        """Begin a life with what is in the files, and hold that against what was promised."""
        self.node = node = StoreNode(events, self.files, heard, may_run)
        group = node.group
        self.is_damaged = group is not None and group.is_amnesiac
        if not self.is_damaged:
            rule(not node.errors, f"a start finds fault: {node.errors}")
            self.platter = self.promised(node.found())
            live = self.platter.live
            self.check_live(node, live)
        else:
            found = node.found()
            assert found is not None
            durable, content = found
            self.platter = Platter(durable.term, durable.vote, durable.snapshot, content)
            self.platter.entries = durable.entries
        self.waiting = []
        self.taken = None
        return node

    def promised(self, found: tuple[Durable, bytes] | None) -> Platter:
        """Return what was found, which must be what was said to be durable, or with it what was
        handed over next."""
        for platter in self.possible():
            if found is None:
                if platter.snapshot.index == platter.last_index == platter.term == 0:
                    return platter
                continue
            durable, content = found
            there = durable.term, durable.vote, durable.snapshot, content, durable.entries
            known = platter.term, platter.vote, platter.snapshot, platter.content, platter.entries
            if there == known:
                return platter
        rule(False, f"a start finds {shown(found)}, and {shown_platter(self.platter)} was durable")
        raise AssertionError

    def possible(self) -> Iterator[Platter]:
        """Give what may be found: all that is durable, and of the rest the first appends."""
        platter = deepcopy(self.platter)
        platter.staged, platter.staged_live = b"", {}
        yield from self.with_taken(platter)
        platter = deepcopy(self.platter)
        for _, records in groupby(self.waiting, lambda each: each[0]):
            for _, record in records:
                platter.write(record)
            yield from self.with_taken(platter)

    def with_taken(self, platter: Platter) -> Iterator[Platter]:
        """Give that, and the same with the member's own snapshot, if that is on its way."""
        yield deepcopy(platter)
        taken = self.taken
        if taken is not None and platter.last_index >= taken.snapshot.index:
            later = deepcopy(platter)
            later.write(taken)
            yield later

    # what the storage says

    def begin_sync(self) -> bool:
        """The storage does that by itself."""
        return False

    def appended(self, number: int) -> None:
        """It says that this append is durable, with all before it."""
        while self.waiting and self.waiting[0][0] <= number:
            self.platter.write(self.waiting.pop(0)[1])

    def kept(self, index: int) -> LogSnapshot | None:
        """It says that the member's own snapshot counts; None: one of a leader has overtaken it."""
        taken, self.taken = self.taken, None
        assert taken is not None
        assert taken.snapshot.index == index
        is_late = index <= self.platter.snapshot.index
        self.platter.write(taken)
        return None if is_late else taken.snapshot

    def check_live(self, node: StoreNode, live: dict[int, LogEntry]) -> None:
        """Hold that all entries below the snapshot are there that it needs. Once the storage counts
        on a newer one, what that needs is held when the member hears of it, or a start finds it:
        the rest may be gone."""
        if not live or self.is_overtaken(node):
            return
        found = node.has_of(live)
        for index, entry in live.items():
            rule(index in found, f"entry {index} is missing, and the snapshot needs it")
            data = found[index]
            rule(
                data is None or self.needed_of(data) == self.needed_of(bytes(entry.data)),
                f"entry {index} is {data!r}, and was {bytes(entry.data)!r}",
            )

    def is_overtaken(self, node: StoreNode) -> bool:
        """Tell whether the storage counts on a newer snapshot than the member has heard of: it does
        so from when that is put into the journal, and what says that it is durable may be in the
        member's inbox behind what is said of an earlier one."""
        group = node.group
        if group is None or group.snapshot.index <= self.platter.snapshot.index:
            return False
        handed_in = {each.snapshot.index for each in self.possible()}
        rule(group.snapshot.index in handed_in, "the storage counts on a snapshot of nobody")
        return True

    def crash(self, random: Random) -> int:
        """End the process, or the machine."""
        assert self.node is not None
        self.node.crash(power=random.random() < 0.7)
        self.node = None
        return len(self.waiting)


def shown(found: tuple[Durable, bytes] | None) -> str:
    """What was found, for people."""
    if found is None:
        return "nothing"
    durable, content = found
    platter = Platter(durable.term, durable.vote, durable.snapshot, content, durable.entries)
    return shown_platter(platter)


def shown_platter(platter: Platter) -> str:
    """What is durable, for people."""
    terms = [entry.term for entry in platter.entries]
    snapshot = platter.snapshot.index, platter.snapshot.term, len(platter.content)
    return f"term {platter.term} vote {platter.vote} snapshot {snapshot} then terms {terms}"
