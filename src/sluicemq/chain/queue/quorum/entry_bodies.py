"""Bodies of a quorum queue: the entries in RAM that have them, and where to cut them out.

An entry arrives with its bytes. Once a segment of the log has it, RAM may drop the bytes and read
them again when a body is to be delivered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.queues.quorum.entry_content import EntryContent

if TYPE_CHECKING:
    from sluicemq.queues.quorum.placed_contents import PlacedContents

PARSED_MAX: Final = 8
"""The most entries whose contents are kept parsed, because they are delivered message by
message."""


class BodyLimits(NamedTuple):
    """Bounds on bodies in RAM that the disk has, too: `ram_bytes` includes overhead; `messages` and
    `body_bytes` (None: no bound) leave out those that were read back."""

    ram_bytes: int
    messages: int | None = None
    body_bytes: int | None = None


class EntryBodies:
    """The bodies of one queue in RAM, by the indexes of their entries. `ram_bytes` is their size,
    including those read back for deliveries; `messages` and `body_bytes` leave these out."""

    def __init__(self) -> None:
        self.fresh: OrderedDict[int, EntryContent] = OrderedDict()
        """Entries, ascending, that may be in no segment of the log and have bodies that may be
        needed."""
        self.stored: OrderedDict[int, EntryContent] = OrderedDict()
        """Likewise, but segments have them, too. They are before all fresh ones."""
        self.read_back: OrderedDict[int, EntryContent] = OrderedDict()
        self.parsed: OrderedDict[int, list[PlacedContents]] = OrderedDict()
        self.ram_bytes = self.messages = self.body_bytes = 0
        self.wanted: dict[int, None] = {}
        """Entries that have to be read."""
        self.on_disk_upto = 0
        """Entries up to this index are in segments."""

    def clear(self, on_disk_upto: int) -> None:
        """Drop everything, because a leader's snapshot has come: what it needs up to that index is
        on the disk, or will be when the snapshot is."""
        for entries in (self.fresh, self.stored, self.read_back, self.parsed):
            entries.clear()
        self.wanted.clear()
        self.ram_bytes = self.messages = self.body_bytes = 0
        self.on_disk_upto = on_disk_upto

    def add(self, index: int, content: EntryContent) -> None:
        """Keep an entry that was just applied, with its messages counted."""
        (self.fresh if index > self.on_disk_upto else self.stored)[index] = content
        self.ram_bytes += len(content)
        self.messages += content.messages
        self.body_bytes += content.body_bytes

    def were_stored(self, upto: int) -> None:
        """Note that entries up to an index are in segments, and may be dropped."""
        self.on_disk_upto = upto
        for index in [*takewhile(upto.__ge__, self.fresh)]:
            self.stored[index] = self.fresh.pop(index)

    def keeps(self, index: int) -> bool:
        """Tell whether an entry is in RAM and was not read back."""
        return index in self.fresh or index in self.stored

    def has(self, index: int) -> bool:
        """Tell whether an entry is in RAM, even if it was read back."""
        return self.keeps(index) or index in self.read_back

    def find(self, index: int) -> list[PlacedContents] | None:
        """Return the messages of an entry; None if it has to be read first: it is then added to
        `wanted`."""
        parsed = self.parsed.get(index)
        if parsed is not None:
            return parsed
        content = None
        for entries in (self.fresh, self.stored, self.read_back):
            if content is None:
                content = entries.get(index)
        if content is None:
            self.wanted[index] = None
            return None
        parsed = content.placed()
        self.parsed[index] = parsed
        if len(self.parsed) > PARSED_MAX:
            self.parsed.popitem(last=False)
        return parsed

    def were_read(self, found: dict[int, bytes], bytes_max: int) -> None:
        """Keep entries that were read, at least one of them, wanted ones first. Beyond `bytes_max`
        the oldest of those read earlier are dropped, and the last of the new ones are not kept:
        they can be read again."""
        size = 0
        for _, index in sorted((index not in self.wanted, index) for index in found):
            if self.has(index):
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
        """Drop entries up to an index, because the queue has none of their messages any more."""
        for entries in (self.stored, self.fresh):
            while entries and (index := next(iter(entries))) <= upto:
                content = entries.pop(index)
                self._gone(index, content)
                content.messages_gone()
        if self.read_back:
            for index in [index for index in self.read_back if index <= upto]:
                self.ram_bytes -= self.read_back.pop(index).size
                self.parsed.pop(index, None)
        if self.wanted:
            for index in [index for index in self.wanted if index <= upto]:
                del self.wanted[index]

    def exceed(self, limits: BodyLimits) -> bool:
        """Tell whether what the disk has, too, takes more RAM than these limits allow."""
        _, messages_max, body_bytes_max = limits
        return bool(self.stored) and (
            self.ram_bytes > limits.ram_bytes
            or (messages_max is not None and self.messages > messages_max)
            or (body_bytes_max is not None and self.body_bytes > body_bytes_max)
        )

    def forget_dead(self, before: int, needed: Container[int]) -> None:
        """Drop stored entries before an index that are not `needed`: the queue has none of their
        messages any more."""
        for index in [*takewhile(before.__gt__, self.stored)]:
            if index not in needed:
                self._let_go(index)

    def shrink(self, limits: BodyLimits) -> None:
        """Drop stored entries until these limits hold, those first that will be needed last."""
        while self.exceed(limits):
            self._let_go(next(reversed(self.stored)))

    def _let_go(self, index: int) -> None:
        content = self.stored.pop(index)
        content.let_go()
        self._gone(index, content)

    def _gone(self, index: int, content: EntryContent) -> None:
        self.parsed.pop(index, None)
        self.ram_bytes -= content.size
        self.messages -= content.messages
        self.body_bytes -= content.body_bytes
        assert min(self.ram_bytes, self.messages, self.body_bytes) >= 0, "more goes than came"
