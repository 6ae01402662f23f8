"""The proposals of this node, from the request until the decision.

    add -> waits -> to_say: has a number, was said to the leader -> decided

Proposals that were sent and are not decided are sent again, in order, when there is another leader
or it may have lost them (`say_again`): their numbers make them count once. So few are under way at
a time that nothing between nodes has to hold much.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.limits import PROPOSAL_BYTES_MAX, PROPOSALS_BYTES
from sluicemq.metadata.agreement import NoAgreement
from sluicemq.metadata.proposals import Proposal, encode_proposal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluicemq.errors import SluiceError
    from sluicemq.metadata.changes import Change, Life

NEVER_NS: Final = 1 << 63
"""The deadline of what is proposed by the broker itself, and waits for as long as it takes."""


class OwnProposal:
    """A change that is proposed. `tell` is called when it is decided, with the refusal or None; it
    is None when nobody waits any more. Nobody waits after the time `until_ns`."""

    __slots__ = ("change", "data", "number", "tell", "until_ns")

    def __init__(
        self,
        change: Change,
        tell: Callable[[SluiceError | None], None] | None,
        until_ns: int,
    ) -> None:
        self.change = change
        self.tell = tell
        self.until_ns = until_ns
        self.number = 0
        """Given when it is said first; 0: it was not said to anybody."""
        self.data = b""
        """Then it is encoded."""


class OwnProposals:
    """The proposals of one life of this node, in order."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.waiting: deque[OwnProposal] = deque()
        """Not said to anybody yet."""
        self.said: dict[int, OwnProposal] = {}
        """Said, by number, and not decided."""
        self.said_upto = 0
        """The last number that was said to the present leader, as far as it is known to have
        it."""
        self.last_number = 0
        self.under_way_bytes = 0
        """Of those that were said to the present leader."""
        self.bytes_max = PROPOSAL_BYTES_MAX
        self.awaited = 0
        """Those for which a client or an operator waits."""

    def __len__(self) -> int:
        return len(self.waiting) + len(self.said)

    def add(
        self,
        change: Change,
        tell: Callable[[SluiceError | None], None] | None = None,
        until_ns: int = NEVER_NS,
    ) -> None:
        """Propose a change, behind those before it."""
        self.awaited += until_ns != NEVER_NS
        self.waiting.append(OwnProposal(change, tell, until_ns))

    def changes(self) -> Iterator[Change]:
        """Return what is proposed and not decided."""
        return (each.change for each in (*self.said.values(), *self.waiting))

    def to_say(self) -> list[bytes]:
        """Return what is to be sent to the leader now: as much as may be under way."""
        found: list[bytes] = []
        while self.said_upto < self.last_number and self._has_room:
            self.said_upto += 1
            again = self.said.get(self.said_upto)
            if again is not None:
                found.append(again.data)
                self.under_way_bytes += len(again.data)
        while self.waiting and self._has_room:
            each = self.waiting.popleft()
            number = self.last_number + 1
            each.data = encode_proposal(Proposal(self.life, number, each.change))
            if len(each.data) > self.bytes_max:
                self._refuse(each)
                continue
            self.said_upto = self.last_number = each.number = number
            self.said[each.number] = each
            found.append(each.data)
            self.under_way_bytes += len(each.data)
        return found

    def _refuse(self, proposal: OwnProposal) -> None:
        """Tell the proposer that a change is too large."""
        self.awaited -= proposal.until_ns != NEVER_NS
        if proposal.tell is not None:
            size, most = len(proposal.data), self.bytes_max
            proposal.tell(NoAgreement(f"a change of {size} bytes is too large: {most} at most"))

    @property
    def _has_room(self) -> bool:
        return self.under_way_bytes < PROPOSALS_BYTES

    def say_again(self) -> None:
        """Send every undecided proposal again: the leader may not have it."""
        self.said_upto = min(self.said, default=self.last_number + 1) - 1
        self.under_way_bytes = 0

    def decided(self, number: int) -> OwnProposal | None:
        """Return the proposal of that number, for it is decided; None when it was before."""
        each = self.said.pop(number, None)
        if each is not None:
            if number <= self.said_upto:
                self.under_way_bytes -= len(each.data)
            self.awaited -= each.until_ns != NEVER_NS
        return each

    def expired(self, now_ns: int) -> list[OwnProposal]:
        """Return the proposals for which nobody waits any more. Those that were not sent are
        dropped; those that were may still be agreed on."""
        if not self.awaited:
            return []
        late = [each for each in self.waiting if each.until_ns <= now_ns]
        if late:
            self.waiting = deque(each for each in self.waiting if each.until_ns > now_ns)
        late += (each for each in self.said.values() if each.until_ns <= now_ns)
        self.awaited -= len(late)
        for each in late:
            each.until_ns = NEVER_NS
        return late
