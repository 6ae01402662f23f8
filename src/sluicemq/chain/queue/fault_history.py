"""The faults of queues by name, and the interface of a queue that has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.refused_messages import RefusedMessages
from sluicemq.kernel.actor import StandIn
from sluicemq.limits import CRASH_WINDOW_NS, QUARANTINE_MESSAGES_MAX

if TYPE_CHECKING:
    from sluicemq.storage.entries import StreamFiles
    from sluicemq.storage.quarantine import Wanted

RECOVERING: Final = "recovering"
CRASHED: Final = "crashed"


class CrashPort(StandIn):
    """Answers for a queue that has failed, from then on (`crash_recovery.py`). `state` is
    RECOVERING or CRASHED, as users see it."""

    state: str
    files: StreamFiles | None = None
    """The stream's files that checkpoints need; None: it is no stream, or they are not known yet,
    and checkpoints wait."""

    def failed(self) -> None:
        """Stay down until a restart, because the disk does not take what it has to, or the recovery
        has failed, too."""
        raise NotImplementedError


class FaultHistory:
    """Remembers the faults of all queues that have had a name, since the start."""

    def __init__(self) -> None:
        self.last_ns: int | None = None
        self.accused: set[tuple[int, int]] = set()
        """Messages that have been a cause once: queue's id and position."""
        self.refused_messages = RefusedMessages()

    def judge(
        self, now_ns: int, queue_id: int, found: list[Wanted], refused: list[bytes]
    ) -> tuple[str, list[Wanted]]:
        """Judge one more fault, at `now_ns`, with these messages as its cause; `refused` are
        contents that are refused from now on. Returns the state of the queue, RECOVERING or
        CRASHED, and the messages that were a cause before."""
        before_ns, self.last_ns = self.last_ns, now_ns
        if refused or self.refused_messages.has_come_nearer():
            return RECOVERING, []
        again = [each for each in found if (queue_id, each.position) in self.accused]
        self.accused |= {(queue_id, each.position) for each in found}
        if again:
            self.accused -= {(queue_id, each.position) for each in again}
            return RECOVERING, again
        soon = before_ns is not None and now_ns - before_ns < CRASH_WINDOW_NS
        if (soon and not found) or len(self.accused) > QUARANTINE_MESSAGES_MAX:
            return CRASHED, []
        return RECOVERING, []
