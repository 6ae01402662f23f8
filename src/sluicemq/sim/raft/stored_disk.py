"""A member's real disk: the storage of Raft's logs in the node's journal and segments, on simulated
files. Records handed to it, and records it has called durable, are kept beside it, so that a start
can be checked against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    from sluicemq.raft.snapshot import LogSnapshot
    from sluicemq.sim.raft.events import Events


class StoredDisk(RaftDisk):
    """`platter` has the records called durable, `waiting` those handed over since."""

    needed_of: Callable[[bytes], bytes] = staticmethod(needed_of)
    """Returns the needed part of an entry, if that can be known from the entry alone."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimFiles()
        self.node: StoreNode | None = None
        self.taken: TakenSnapshot | None = None
        """A snapshot of the member's own that is being written."""
        self.is_damaged = False
        """A start has found something lost."""

    def start(
        self, events: Events, heard: Callable[[object], None], may_run: Callable[[], bool]
    ) -> StoreNode:
        """Begin a life with the content of the files, and check that against the promises."""
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
        """Return what was found: it must be everything called durable, perhaps with the next
        records handed over."""
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
        """Yield what may be found: everything durable, and with it the first of the
        other appends.
        """
        platter = self.platter.copy()
        platter.staged, platter.staged_live = b"", {}
        yield from self.with_taken(platter)
        platter = self.platter.copy()
        for _, records in groupby(self.waiting, lambda each: each[0]):
            for _, record in records:
                platter.write(record)
            yield from self.with_taken(platter)

    def with_taken(self, platter: Platter) -> Iterator[Platter]:
        """Yield that, and the same with the member's own snapshot, if one is being written."""
        yield platter.copy()
        taken = self.taken
        if taken is not None and platter.last_index >= taken.snapshot.index:
            later = platter.copy()
            later.write(taken)
            yield later

    # news from the storage

    def begin_sync(self) -> bool:
        """Do nothing: the storage syncs by itself."""
        return False

    def appended(self, number: int) -> None:
        """Note that this append is durable, with all before it."""
        while self.waiting and self.waiting[0][0] <= number:
            self.platter.write(self.waiting.pop(0)[1])

    def kept(self, index: int) -> LogSnapshot | None:
        """Note that the member's own snapshot counts; None when one of a leader has
        overtaken it.
        """
        taken, self.taken = self.taken, None
        assert taken is not None
        assert taken.snapshot.index == index
        is_late = index <= self.platter.snapshot.index
        self.platter.write(taken)
        return None if is_late else taken.snapshot

    def check_live(self, node: StoreNode, live: dict[int, LogEntry]) -> None:
        """Check that all entries are there that the snapshot needs. Once the storage counts on a
        newer one, its entries are checked when the member hears of it, or a start finds it: others
        may be gone."""
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
        """Tell whether the storage counts on a newer snapshot than the member knows: it does so
        once the snapshot is put into the journal, and the news that it is durable may be in the
        member's inbox behind news of an earlier one."""
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
    """Return what was found as text."""
    if found is None:
        return "nothing"
    durable, content = found
    platter = Platter(durable.term, durable.vote, durable.snapshot, content, durable.entries)
    return shown_platter(platter)


def shown_platter(platter: Platter) -> str:
    """Return what is durable as text."""
    terms = [entry.term for entry in platter.entries]
    snapshot = platter.snapshot.index, platter.snapshot.term, len(platter.content)
    return f"term {platter.term} vote {platter.vote} snapshot {snapshot} then terms {terms}"
