"""What tests of mirrored queues share: runs of messages, and a mirror as plain dicts."""

from __future__ import annotations

from sluicemq.model.traits import message_traits
from sluicemq.queues.mirrored.commands import (
    MarkDelivered,
    MirrorCommand,
    RemoveMessages,
    WriteMessages,
)
from sluicemq.storage.entries import Run
from sluicemq.storage.positions import priority_at

TRAITS = message_traits(b"\1e\1k", 1, True)


def run_of(first: int, contents: list[bytes], expiry: int = 0) -> Run:
    """Messages at the positions from `first` on."""
    sizes = [*map(len, contents)]
    return Run(
        0, first, 1, len(contents), TRAITS, len({*sizes}) == 1, contents, sizes, 0, 1, expiry
    )


class MirrorModel:
    """A mirror message by message."""

    def __init__(self) -> None:
        self.messages: dict[int, tuple[int, int]] = {}
        """By position, the entry and the place there."""
        self.marks: dict[int, int] = {}
        """By priority."""

    def apply(self, index: int, commands: list[MirrorCommand]) -> None:
        place = 0
        for command in commands:
            if isinstance(command, WriteMessages):
                for position in command.run.positions:
                    self.messages[position] = (index, place)
                    place += 1
            elif isinstance(command, RemoveMessages):
                for position in (each for part in command.positions for each in part):
                    self.messages.pop(position, None)
            elif isinstance(command, MarkDelivered):
                row = priority_at(command.position)
                self.marks[row] = max(self.marks.get(row, 0), command.position)

    def live(self) -> dict[int, set[int]]:
        """The places that are needed, by entry."""
        found: dict[int, set[int]] = {}
        for index, place in self.messages.values():
            found.setdefault(index, set()).add(place)
        return found
