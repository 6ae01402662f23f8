"""No replication: one member decides at once."""

from __future__ import annotations

from sluicemq.replication.replicator import C, E, Replicator, Role


class Alone(Replicator[C, E]):
    """One member decides by itself, so it applies a command when it arrives."""

    __slots__ = ()

    def submit(self, command: C) -> None:
        self.agreed(command)

    def receive(self, message: object) -> bool:
        return False

    def turn_ended(self) -> None:
        """Do nothing, because one member has nothing to send."""

    def role(self) -> Role:
        return "leader"

    def figures(self) -> dict[str, int]:
        return {"pending": len(self.waiting) + (self.current is not None)}

    def close(self) -> list[C]:
        return self.undone()
