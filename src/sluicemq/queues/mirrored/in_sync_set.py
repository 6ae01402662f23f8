"""The members that have all of a mirrored queue, by its log: the master, and the mirrors that
confirms wait for; and the held mirrors.

Every member knows the same set, and only committed entries change it.
"""

from __future__ import annotations

from sluicemq.queues.mirrored.commands import (
    BeginMastership,
    DropMirror,
    HoldMirror,
    InSyncChanged,
    JoinMirror,
    MirrorEffect,
    MirrorFree,
    ReleaseMirror,
)


class InSyncSet:
    """The in-sync set of one queue. `members` are in order of age, the eldest first, and include
    the master."""

    def __init__(self) -> None:
        self.master = 0
        """The member that serves; 0: none has yet."""
        self.members: tuple[int, ...] = ()
        self.held: dict[int, dict[int, int]] = {}
        """Mirrors that wait until the old messages have gone: for each row of positions of that
        time, the first unused position."""

    def begin(self, command: BeginMastership, effects: list[MirrorEffect]) -> None:
        """Let a member serve. It is in the set, because it has applied all committed entries."""
        self.master = command.member
        if command.member not in self.members:
            self.members = (*self.members, command.member)
        effects.append(InSyncChanged(self.members, f"{command.member} is master"))

    def join(self, command: JoinMirror, effects: list[MirrorEffect]) -> None:
        if command.member not in self.members:
            self.members = (*self.members, command.member)
            effects.append(InSyncChanged(self.members, f"{command.member} has joined"))

    def drop(self, command: DropMirror, effects: list[MirrorEffect]) -> None:
        """Remove a mirror. The master stays: the one that drops it began earlier."""
        if command.member in self.members and command.member != self.master:
            self.members = (*(each for each in self.members if each != command.member),)
            event = f"{command.member} was dropped: {command.reason}"
            effects.append(InSyncChanged(self.members, event))

    def hold(self, command: HoldMirror, nexts: dict[int, int]) -> None:
        """Hold a mirror until no message is left that has a position below those of `nexts`."""
        self.held.setdefault(command.member, nexts)

    def release(self, command: ReleaseMirror, effects: list[MirrorEffect]) -> None:
        if self.held.pop(command.member, None) is not None:
            effects.append(MirrorFree(command.member))

    def look_at_held(self, firsts: dict[int, int], effects: list[MirrorEffect]) -> None:
        """Free held mirrors whose old messages are all gone: `firsts` has the position of the first
        message of each row that has any."""
        free = [
            member
            for member, nexts in self.held.items()
            if not any(firsts.get(row, before) < before for row, before in nexts.items())
        ]
        for member in free:
            self.release(ReleaseMirror(member), effects)
