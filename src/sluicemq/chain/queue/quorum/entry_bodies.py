"""Bodies of a quorum queue: those of which entries are in RAM, and where to cut them out.

An entry comes with its bytes. When it is in a segment of the log they may be let go, and are read
from there when somebody is to have them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from sluicemq.queues.quorum.entry_content import EntryContent

if TYPE_CHECKING:
    from sluicemq.queues.quorum.trimming import PlacedBatch

PARSED_MAX: Final = 8
"""Entries whose contents are kept cut, for they are delivered message by message."""


class EntryBodies:
    """The bodies of one queue in RAM, by the indexes of their entries. `ram_bytes` is what they
    take, and what was read back for deliveries is a part of it."""

    def __init__(self) -> None:
        self.fresh: OrderedDict[int, EntryContent] = OrderedDict()
        """Entries since the start, in their order, that have bodies which may be needed."""
        self.read_back: OrderedDict[int, EntryContent] = OrderedDict()
        self.parsed: OrderedDict[int, list[PlacedBatch]] = OrderedDict()
        self.ram_bytes = 0
        self.wanted: dict[int, None] = {}
        """Entries that have to be read."""
        self.on_disk_upto = 0
        """Up to this index entries are in segments."""

    def add(self, index: int, content: EntryContent) -> None:
        """Keep an entry that was applied just now."""
        self.fresh[index] = content
        self.ram_bytes += content.size

    def find(self, index: int) -> list[PlacedBatch] | None:
        """Return the batches of an entry; None when it has to be read first, and then it is among
        those `wanted`."""
        parsed = self.parsed.get(index)
        if parsed is not None:
            return parsed
        content = self.fresh.get(index) or self.read_back.get(index)
        if content is None:
            self.wanted[index] = None
            return None
        parsed = content.batches()
        self.parsed[index] = parsed
        if len(self.parsed) > PARSED_MAX:
            self.parsed.popitem(last=False)
        return parsed

    def were_read(self, found: dict[int, bytes], bytes_max: int) -> None:
        """Keep entries that were read, those first that somebody waits for, and at least one of
        them. What takes more than `bytes_max` goes: what was read before, the oldest first, and
        what is needed last of the others, for it can be read again."""
        size = 0
        for _, index in sorted((index not in self.wanted, index) for index in found):
            if index in self.fresh or index in self.read_back:
                continue
            data = found[index]
            if size and size + len(data) > bytes_max:
                break
            size += len(data)
            content = self.read_back[index] = EntryContent(data)
            self.ram_bytes += content.size
        size = sum(each.size for each in self.read_back.values())
        while size > bytes_max and next(iter(self.read_back)) not in found:
            index, gone = self.read_back.popitem(last=False)
            self.parsed.pop(index, None)
            size -= gone.size
            self.ram_bytes -= gone.size
        self.wanted.clear()

    def release(self, upto: int) -> None:
        """Let go of entries up to an index, for nothing of them is needed any more."""
        fresh = self.fresh
        while fresh and (index := next(iter(fresh))) <= upto:
            self.ram_bytes -= fresh.popitem(last=False)[1].size
            self.parsed.pop(index, None)
        for index in [index for index in self.read_back if index <= upto]:
            self.ram_bytes -= self.read_back.pop(index).size
            self.parsed.pop(index, None)
        for index in [index for index in self.wanted if index <= upto]:
            del self.wanted[index]

    def shrink(self, bytes_max: int) -> None:
        """Let go of bytes that the disk has until there are at most so many, those first that will
        be needed last."""
        if self.ram_bytes <= bytes_max:
            return
        for index in reversed([index for index in self.fresh if index <= self.on_disk_upto]):
            content = self.fresh.pop(index)
            content.let_go()
            self.ram_bytes -= content.size
            self.parsed.pop(index, None)
            if self.ram_bytes <= bytes_max:
                return
