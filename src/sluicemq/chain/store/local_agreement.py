"""The agreement of a node that is alone: every proposal is agreed on at once.

A change is applied, added to the journal, and told to the followers, all in one turn; its proposer
gets Agreed after the sync, if the change is to last. So others see it before it is durable, and
that is right: whatever they build on it (a binding, a message, another declaration) goes to the
journal after it, or in the same group, where declarations come first; so nothing that was confirmed
can be found without it. A declaration of something that exists is answered after the appends under
way, because one of these may have made it.

When an append fails the storage has failed: the proposer is refused, and so is each later change
that is to last, before it is applied. The state of this process may then be ahead of the journal,
but nobody was told that the difference is durable, and nothing more is confirmed before a restart,
which begins with the contents of the journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.store.messages import StoreDefinition
from sluicemq.metadata.agreement import Agreement, NoAgreement
from sluicemq.metadata.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteRecord,
    Together,
    Unbind,
    UpsertRecord,
)
from sluicemq.metadata.codec import encode

if TYPE_CHECKING:
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.kernel.actor import Actor
    from sluicemq.metadata.state import DeclaredState


class LocalAgreement(Agreement):
    """The agreement of a node that is alone. `underway` counts the appends that are not
    finished.
    """

    def __init__(self, state: DeclaredState, store: MessageStore) -> None:
        super().__init__(state)
        self.store = store
        self.underway = 0

    def check_ready(self, change: Change) -> None:
        """Raise NoAgreement when the change is to last and the storage has failed."""
        if self.store.storage_failed and is_to_last(self.state, change):
            raise NoAgreement(self.store.storage_failed)

    def propose(self, change: Change, proposer: Actor | None = None) -> bool:
        self.check_ready(change)
        outcome = self.state.apply(change)
        durable = outcome.durable
        is_covered = proposer is None or not outcome.lasts or not (durable or self.underway)
        if durable or not is_covered:
            self.underway += 1
            self.store.post(JournalledChange(self, durable, proposer))
        if outcome.events:
            self.tell(outcome.events)
        return is_covered


class JournalledChange(StoreDefinition):
    """One change that was applied, on its way to the journal."""

    __slots__ = ("agreement",)

    def __init__(
        self, agreement: LocalAgreement, durable: list[Change], proposer: Actor | None
    ) -> None:
        super().__init__(encoded(durable), proposer)
        self.agreement = agreement

    def appended(self) -> None:
        self.agreement.underway -= 1
        super().appended()

    def refused(self, reason: str) -> None:
        self.agreement.underway -= 1
        super().refused(reason)


def encoded(durable: list[Change]) -> bytes:
    """Return the journal's entry from which all of these changes are recovered, or none; empty if
    there are none."""
    if len(durable) > 1:
        return encode(Together(tuple(durable)))
    return encode(durable[0]) if durable else b""


def is_to_last(state: DeclaredState, change: Change) -> bool:
    """Tell whether the change itself has to be in the journal. Changes that follow from the end of
    something, such as that of an auto-delete exchange, are applied whatever the storage does."""
    if isinstance(change, DeclareExchange | DeclareQueue):
        return change.definition.durable
    if isinstance(change, Together):
        return any(is_to_last(state, each) for each in change.changes)
    if isinstance(change, Bind):
        host = state.hosts.get(change.binding.vhost)
        return host is not None and host.topology.is_durable(change.binding)
    if isinstance(change, Unbind):
        host = state.hosts.get(change.binding.vhost)
        return host is not None and change.binding.identity in host.topology.durable_bindings
    if isinstance(change, DeleteExchange):
        host = state.hosts.get(change.vhost)
        exchange = None if host is None else host.topology.exchanges.get(change.name)
        return exchange is not None and exchange.definition.durable
    return isinstance(change, UpsertRecord | DeleteRecord)
