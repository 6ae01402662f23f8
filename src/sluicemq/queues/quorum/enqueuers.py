"""The senders of a queue, and how far each has come: this makes repeated sending idempotent.

A sender numbers its messages from 1 on and sends them in order; after a change of leader, or a lost
link, it sends all unanswered messages again. Each message is taken once, and a second answer is the
same as the first, even if that was a rejection.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sluicemq.kernel.address import ActorAddress

ENDED_MAX: Final = 4096
"""The most ended addresses that are remembered, so that no late command begins them anew. A lost
link delivers nothing that was sent before, so late commands come soon."""


class AnsweredSpan(NamedTuple):
    """Messages of one sender from the number `start` to before `end` that had the same answer."""

    start: int
    end: int
    is_taken: bool


class Enqueuer:
    """The progress of one sender: its next message has the number `next_seq`, and it has the
    answers for all below `heard_seq`. `rejected` are the rejected ones that it may ask for again,
    as (number, before number), ascending."""

    __slots__ = ("heard_seq", "next_seq", "rejected")

    def __init__(self, next_seq: int = 1, heard_seq: int = 1) -> None:
        self.next_seq = next_seq
        self.heard_seq = heard_seq
        self.rejected: list[tuple[int, int]] = []

    def heard(self, seq: int) -> None:
        """Forget the answers to all messages below `seq`, which the sender has."""
        if seq <= self.heard_seq:
            return
        assert seq <= self.next_seq, "nobody hears of what has not come"
        self.heard_seq = seq
        rejected = self.rejected
        while rejected and rejected[0][1] <= seq:
            del rejected[0]

    def reject(self, start: int, end: int) -> None:
        """Remember that the messages from `start` to before `end`, the next ones, were rejected."""
        assert start == self.next_seq < end, "only what is next is rejected"
        self.next_seq = end
        if self.rejected and self.rejected[-1][1] == start:
            self.rejected[-1] = (self.rejected[-1][0], end)
        else:
            self.rejected.append((start, end))

    def answers(self, start: int, end: int) -> list[AnsweredSpan]:
        """Return the answers to the messages from `start` to before `end`, all of which have come,
        except for answers that the sender has."""
        assert end <= self.next_seq, "no answer to what has not come"
        spans: list[AnsweredSpan] = []
        at = max(start, self.heard_seq)
        for low, high in self.rejected:
            low, high = max(low, at), min(high, end)
            if low < high:
                if at < low:
                    spans.append(AnsweredSpan(at, low, True))
                spans.append(AnsweredSpan(low, high, False))
                at = high
        if at < end:
            spans.append(AnsweredSpan(at, end, True))
        return spans


class Enqueuers:
    """The registered senders, by address, and those that may not register any more: some addresses
    that have ended, and earlier lives of nodes."""

    __slots__ = ("ended", "incarnations", "members")

    def __init__(self) -> None:
        self.members: dict[ActorAddress, Enqueuer] = {}
        self.ended: dict[ActorAddress, None] = {}
        """The last ENDED_MAX, the oldest first."""
        self.incarnations: dict[int, int] = {}
        """The present life of each node, as far as known."""

    def register(self, sender: ActorAddress) -> Enqueuer | None:
        """Return the state of a sender, new or as it is; None when its address has ended."""
        known = self.members.get(sender)
        if known is None and not self.has_ended(sender):
            known = self.members[sender] = Enqueuer()
        return known

    def has_ended(self, address: ActorAddress) -> bool:
        """Tell whether the address is known to have ended."""
        return address in self.ended or address.incarnation < self.incarnations.get(address.node, 0)

    def end(self, address: ActorAddress) -> None:
        """Forget a sender for good."""
        self.members.pop(address, None)
        if self.has_ended(address):
            return
        self.ended[address] = None
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def restarted(self, node: int, incarnation: int) -> list[ActorAddress]:
        """Forget all senders of earlier lives of a node. Returns their addresses."""
        if incarnation <= self.incarnations.get(node, 0):
            return []
        self.incarnations[node] = incarnation
        gone = [each for each in self.members if each.node == node and self.has_ended(each)]
        for address in gone:
            del self.members[address]
        self.ended = {each: None for each in self.ended if not self.is_earlier(each)}
        return gone

    def is_earlier(self, address: ActorAddress) -> bool:
        """Tell whether the address belongs to an earlier life of its node."""
        return address.incarnation < self.incarnations.get(address.node, 0)
