"""What nodes of a cluster propose: changes that go through the log of all nodes, each once.

A proposal names the life of its node, and has a number in that life: 1 is NodeStarted, and each
further one has the next number. The log may have a proposal twice, because a node repeats proposals
that may have been lost; or one without those before it. So the state knows the last number of each
node, and only the next one is decided; others are ignored.

In the log, and between nodes, one is behind the other, with little-endian numbers:

    node u32 | incarnation u32 | number u64 | length u32 | the change as JSON, as in `codec`
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import Corrupt, ProtocolViolation, Refused, SluiceError
from sluicemq.metadata.changes import Change, Life, NodeStarted
from sluicemq.metadata.codec import decode, encode
from sluicemq.metadata.restoring import restored_from_snapshot
from sluicemq.metadata.state import DeclaredState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.metadata.events import Applied

DEFINITIONS_GROUP: Final = 0
"""The id of the Raft group of all nodes. Others have the ids of their queues, which begin with
1."""

PROPOSAL_HEAD: Final = Struct("<IIQI")


class Proposal(NamedTuple):
    """A change that a node proposes, and the number that this has in its life."""

    life: Life
    number: int
    change: Change


class Decision(NamedTuple):
    """The outcome of a proposal: it is applied, or refused."""

    applied: Applied | None
    refusal: SluiceError | None


def encode_proposal(proposal: Proposal) -> bytes:
    """Return the proposal as it is in the log."""
    change = encode(proposal.change)
    return PROPOSAL_HEAD.pack(*proposal.life, proposal.number, len(change)) + change


def decode_proposals(data: bytes) -> list[Proposal]:
    """Return the proposals in these bytes, one behind the other. Raises Corrupt when they are
    malformed."""
    found: list[Proposal] = []
    at = 0
    try:
        while at < len(data):
            node, incarnation, number, length = PROPOSAL_HEAD.unpack_from(data, at)
            at += PROPOSAL_HEAD.size
            if at + length > len(data):
                raise Corrupt("a proposal that is cut off")
            changes, _ = decode(data[at : at + length])
            if len(changes) != 1:
                raise Corrupt(f"a proposal of {len(changes)} changes")
            at += length
            found.append(Proposal(Life(node, incarnation), number, changes[0]))
    except struct.error as error:
        raise Corrupt(f"a proposal that does not parse: {error}") from error
    return found


def decide(state: DeclaredState, proposal: Proposal) -> Decision | None:
    """Apply the proposal, unless it is not the next one of its node's life, or its node was
    removed; None: then nothing has happened. A start with an incarnation that is too low is
    refused, and counts for nothing."""
    (node, incarnation), number, change = proposal
    if state.nodes.is_gone(node):
        return None  # what it says does not count any more
    known = state.incarnations.get(node, 0)
    is_start = isinstance(change, NodeStarted) and change.life == proposal.life
    if is_start and incarnation != known:
        if incarnation > known:
            state.proposed[node] = number
    elif incarnation != known or number != state.proposed.get(node, 0) + 1:
        return None
    else:
        state.proposed[node] = number
    try:
        return Decision(state.apply(change), None)
    except (ProtocolViolation, Refused) as refusal:
        return Decision(None, refusal)


def declared_in(content: bytes, entries: Iterable[bytes]) -> DeclaredState:
    """Return the state of a member with a snapshot of this content, b"" if there is none, and the
    entries behind it. Raises Corrupt."""
    state = restored_from_snapshot(content) if content else DeclaredState()
    for data in entries:
        for proposal in decode_proposals(data):
            decide(state, proposal)
    return state
