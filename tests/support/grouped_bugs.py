"""Bugs of a replicator over a Raft group, to be planted (conformance/test_replicator.py)."""

from __future__ import annotations

from sluicemq.raft.entry import LogEntry
from support.echo import EchoCommand
from support.grouped import Grouped, Synced


class Presumptuous(Grouped):
    """Applies what it is about to write."""

    __slots__ = ()

    def turn_ended(self) -> None:
        for command in self.gathered:
            self.machine.apply(command, self.effects)
        super().turn_ended()


class Forgetful(Grouped):
    """Loses what comes while an entry is not agreed on."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        if not self.proposed:
            super().submit(command)


class Twofold(Grouped):
    """Applies the commands of an entry twice."""

    __slots__ = ()

    def committed(self, entry: LogEntry) -> None:
        super().committed(entry)
        super().committed(entry)


class Overhasty(Grouped):
    """Makes an entry of each command."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        super().submit(command)
        self.turn_ended()


class Clinging(Grouped):
    """Says nothing of what is in entries that are not agreed on."""

    __slots__ = ()

    def close(self) -> list[EchoCommand]:
        self.proposed.clear()
        return super().close()


class Overlooking(Grouped):
    """Forgets the rest of an entry at whose command there is a fault."""

    __slots__ = ()

    def committed(self, entry: LogEntry) -> None:
        try:
            super().committed(entry)
        except ZeroDivisionError:
            self.waiting.clear()
            raise


class Restless(Grouped):
    """Makes entries of nothing."""

    __slots__ = ()

    def turn_ended(self) -> None:
        self.raft.propose(self.codec.encode([], 0))
        self.pump()


class Deposed(Grouped):
    """Takes what the log of another member says."""

    __slots__ = ()

    def receive(self, message: object) -> bool:
        if isinstance(message, Synced):
            message = Synced(self, message.number)
        return super().receive(message)
