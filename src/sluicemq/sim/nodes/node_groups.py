"""The Raft groups of a run's nodes, and the checks after each turn of the actors that own their
members.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from sluicemq.broker.member_plans import queues_with_members
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.kernel.machine import Replicated
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.snapshot import digest_of
from sluicemq.queues.quorum.commands import FifoCommand
from sluicemq.queues.quorum.effects import FifoEffect
from sluicemq.sim.nodes.groups import GroupHistory, GroupMember
from sluicemq.sim.records import promise
from sluicemq.sim.touched import RecordedTurns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
    from sluicemq.kernel.actor import Actor
    from sluicemq.node import Node
    from sluicemq.queues.quorum.fifo import Fifo
    from sluicemq.raft.configuration import Configuration
    from sluicemq.raft.messages import RaftMessage
    from sluicemq.raft.raft import Raft
    from sluicemq.sim.nodes.host import NodeHost
    from sluicemq.sim.nodes.promotions import Promotions
    from sluicemq.sim.timeline import Timeline

COMPARED_EVERY: Final = 8
"""States of quorum queues are compared once in this many entries."""
DECLARED_EVERY: Final = 4
"""Definitions are compared once in this many entries, and at the end."""


def members_of(node: Node) -> Iterator[tuple[int, Raft, SharedShell | MirrorMember | None]]:
    """Yield the groups in which a node has a member, with the member and its queue; the queue is
    None for the definitions' group."""
    agreement = node.broker.clustered
    if agreement is not None and agreement.member is not None:
        yield DEFINITIONS_GROUP, agreement.member.raft, None
    for vhost in node.broker.vhosts.values():
        for queue in (*vhost.queues.values(), *vhost.aside.values()):
            if isinstance(queue, SharedShell):
                yield queue.id, queue.raft, queue
        if vhost.mirrored is not None:
            for member in vhost.mirrored.members.values():
                yield member.id, member.raft, member


def leads(node: Node) -> bool:
    """Tell whether a node believes that it leads a group."""
    return any(raft.is_leader for _, raft, _ in members_of(node))


class ComparedFifo(Replicated[FifoCommand, FifoEffect]):
    """Stands between a replicator and the state of a quorum queue, and compares the state every so
    often before an entry is applied."""

    def __init__(self, fifo: Fifo, node: int, history: GroupHistory) -> None:
        self.fifo = fifo
        self.node = node
        self.history = history

    def entered(self, index: int, stamp_ms: int) -> None:
        fifo = self.fifo
        if fifo.index % COMPARED_EVERY == 0:
            self.history.applied(self.node, fifo.index, fifo.digest())
        fifo.entered(index, stamp_ms)

    def apply(self, command: FifoCommand, effects: list[FifoEffect]) -> None:
        self.fifo.apply(command, effects)

    def entry_ended(self, effects: list[FifoEffect]) -> None:
        self.fifo.entry_ended(effects)

    def restore(self, pieces: Iterable[bytes]) -> None:
        self.fifo.restore(pieces)


class NodeGroups:
    """All Raft groups of a run. A group whose member goes on without the others by a promotion is
    a new one, with what that member had."""

    def __init__(self, timeline: Timeline, promotions: Promotions) -> None:
        self.timeline = timeline
        self.promotions = promotions
        self.births: dict[int, int] = {}
        """When the first node had each queue declared, by the queues' ids."""
        self.histories: dict[tuple[int, int], GroupHistory] = {}
        """By group, and the id by which a promotion has begun it; 0: none has."""
        self.declared: dict[int, set[int]] = {}
        """The members that each mirrored queue was ever declared with."""
        self.owners: dict[int, dict[Actor, None]] = {}
        """By node, the actors that own a member of a group, or will own one."""
        self.had_turns: dict[int, dict[Actor, None]] = {}
        """By node, the owners that had a turn since the last look."""
        self.applied: dict[int, int] = {}
        """By node, the last entry of the definitions that it had applied at the last look."""
        self.states: dict[Fifo | Mirror, None] = {}
        """The watched states of queues."""
        self.formations: set[object] = set()
        """The members that groups have had, and those declared for them."""
        self.formation_of: dict[Raft, Configuration] = {}
        """The last formation of each member."""
        self.serving: dict[int, dict[int, Raft]] = {}
        """By node and group, the members that channels used at the last look."""
        self.promotes: frozenset[str] = frozenset()
        """The queues that a mirror may serve without a majority."""
        self.departures = 0
        """How often channels have stopped using a member."""

    def watch(self, host: NodeHost) -> None:
        """Watch the messages that a node which has just begun sends in its groups."""
        post = host.node.raft_post
        assert post is not None
        post.witness = partial(self._said, host)
        if host.plan.bounds is not None:
            host.plan.bounds.of_node(host.node)
        scheduler = host.node.scheduler
        self.had_turns[host.number] = {}
        scheduler.ready = RecordedTurns(scheduler.ready, self.had_turns[host.number])
        assert host.node.broker.clustered is not None
        self.owners[host.number] = {host.node.broker.clustered: None}
        self.applied.pop(host.number, None)
        self.serving.pop(host.number, None)

    def _said(self, host: NodeHost, group: int, messages: list[RaftMessage]) -> None:
        for known, raft, _ in members_of(host.node):
            if known == group:
                member = self._member(host, group, raft)
                for message in messages:
                    self.history(group, raft).says(member, message)
                return

    def history(self, group: int, raft: Raft) -> GroupHistory:
        """Return the history of the group to which a member belongs."""
        return self._history(group, self.promotions.latest(group, raft.member.name))

    def _history(self, group: int, since: int) -> GroupHistory:
        history = self.histories.get((group, since))
        if history is None:
            history = self.histories[group, since] = GroupHistory(group, self.timeline)
        return history

    def _member(self, host: NodeHost, group: int, raft: Raft) -> GroupMember:
        history = self.history(group, raft)
        if not history.members:
            self.promotions.goes_on(group, raft, history)
        member = history.members.get(host.number)
        if member is None or member.raft is not raft:
            member = GroupMember(group, host.number, raft, host.image, raft.member.name)
            history.begin(member)
            settings = raft.member.settings
            at_once = min(settings.append_entries, host.plan.append_entries)
            settings = replace(settings, append_entries=at_once)
            bounds = host.plan.bounds
            raft.member.settings = settings if bounds is None else bounds.settings(settings)
        return member

    def look(self, host: NodeHost) -> None:
        """Check the members on a node that has had turns, and what is durable there now: a node
        asks for deletions only in a turn after it heard of the sync."""
        host.look_at_disk()
        had_turns = self.had_turns[host.number]
        owners = self.owners[host.number]
        if not owners.keys().isdisjoint(had_turns):
            self._look_at_members(host, had_turns)
        had_turns.clear()
        if self.promotes:
            self._look_at_masters(host)

    def _look_at_masters(self, host: NodeHost) -> None:
        """Note which groups have a member that serves on this node."""
        for group, raft, shell in members_of(host.node):
            if isinstance(shell, MirrorMember) and shell.served_term:
                self.history(group, raft).served_ns = self.timeline.now_ns

    def _look_at_promotions(self, agreement: ClusterAgreement) -> None:
        """Find out which queues have got a new member alone since the last look: a promotion."""
        for declared in queues_with_members(agreement.state):
            if not declared.is_mirrored:
                continue
            known = self.declared.setdefault(declared.id, {*declared.members})
            (*others, name) = sorted(declared.members)
            if not others and not declared.leaving and name > max(known):
                former = self._history(declared.id, self.promotions.latest(declared.id, name))
                queue = declared.definition.name
                promise(queue in self.promotes, queue, "goes on with a part of its mirrors")
                self.promotions.began(declared.id, queue, name, former)
            known.update(declared.members)

    def _has_left_none(self, host: NodeHost, agreement: ClusterAgreement) -> None:
        """Check that no member goes on of which a node knows that it was left behind."""
        since = {
            declared.id: self.promotions.latest(declared.id, min(declared.members))
            for declared in queues_with_members(agreement.state)
        }
        for group, raft, _ in members_of(host.node):
            has_heard = raft.member.name >= since.get(group, 0)
            promise(has_heard, f"group {group} goes on at", host.name, "and was left behind")

    def _look_at_members(self, host: NodeHost, had_turns: dict[Actor, None]) -> None:
        """Check the members whose owners had turns, and all those of queues after a turn in which
        the node applied definitions."""
        agreement = host.node.broker.clustered
        assert agreement is not None
        definitions = agreement.member
        is_decided = definitions is not None and not agreement.undecided
        applied = definitions.applied if definitions is not None and is_decided else 0
        has_applied = is_decided and applied != self.applied.get(host.number)
        if has_applied and self.promotes:
            self._look_at_promotions(agreement)
            self._has_left_none(host, agreement)
        was = self.serving.get(host.number, {})
        serving: dict[int, Raft] = {}
        for group, raft, shell in members_of(host.node):
            if shell is None:
                if agreement in had_turns:
                    self._check(host, group, raft)
                continue
            serving[group] = raft
            if has_applied or shell in had_turns or was.get(group) is not raft:
                self._look_at_queue(host, group, raft, shell)
        self.serving[host.number] = serving
        self.departures += any(serving.get(group) is not raft for group, raft in was.items())
        if has_applied:
            self.applied[host.number] = applied
            if applied % DECLARED_EVERY == 0:
                self._compare_declared(host.number, agreement)
            for declared in queues_with_members(agreement.state):
                self.formations.add((declared.id, declared.members, declared.leaving))
            for vhost in agreement.state.hosts.values():
                for declared in vhost.queues.values():
                    self.births.setdefault(declared.id, self.timeline.now_ns)

    def _check(self, host: NodeHost, group: int, raft: Raft) -> None:
        member = self._member(host, group, raft)
        self.history(group, raft).look(member)

    def _look_at_queue(
        self, host: NodeHost, group: int, raft: Raft, shell: SharedShell | MirrorMember
    ) -> None:
        """Check a queue's member on a node."""
        self._check(host, group, raft)
        formation = raft.configuration
        if self.formation_of.get(raft) is not formation:
            self.formation_of[raft] = formation
            self.formations.add((group, formation))
        state = shell.fifo if isinstance(shell, SharedShell) else shell.mirror
        if state not in self.states:
            self.owners[host.number][shell] = None
            self._watch_state(host.number, group, shell)
            if host.plan.bounds is not None:
                host.plan.bounds.of_queue(shell)

    def _compare_declared(self, node: int, agreement: ClusterAgreement) -> None:
        """Compare a node's definitions with those of other nodes after the same entry."""
        assert agreement.member is not None
        history = self._history(DEFINITIONS_GROUP, 0)
        history.applied(node, agreement.member.applied, agreement.state.snapshot())

    def _watch_state(self, node: int, group: int, shell: SharedShell | MirrorMember) -> None:
        """Compare the state of a queue with those of its other members, every so often, before it
        applies the next entry."""
        if isinstance(shell, SharedShell):
            self.states[shell.fifo] = None
            history = self.history(group, shell.raft)
            shell.replicator.machine = ComparedFifo(shell.fifo, node, history)
            return
        state, raft = shell.mirror, shell.raft
        self.states[state] = None
        original = state.entered

        def entered(index: int, stamp_ms: int) -> None:
            if state.index % COMPARED_EVERY == 0:
                self.history(group, raft).applied(node, state.index, digest_of(state))
            original(index, stamp_ms)

        state.entered = entered  # type: ignore[method-assign]

    def changes(self) -> int:
        """Return how often groups have had another leader or other members, so that unacknowledged
        messages may have been requeued."""
        leaders = sum(len(history.leaders) for history in self.histories.values())
        return leaders + len(self.formations) + self.departures

    def has_former_master(self, name: str, hosts: list[NodeHost]) -> bool:
        """Tell whether a master of that queue serves clients though another member was elected."""
        for host in hosts:
            for group, raft, shell in members_of(host.node) if host.is_running else ():
                if isinstance(shell, MirrorMember) and shell.name == name and shell.master:
                    terms = self.history(group, raft).leaders
                    if max(terms, default=0) > shell.served_term:
                        return True
        return False

    def backlog(self, hosts: list[NodeHost]) -> str:
        """Return a node that does not know all committed entries of its groups; "" without one."""
        for host in hosts:
            for group, raft, _ in members_of(host.node):
                history = self.history(group, raft)
                if raft.member.log.commit < history.commit:
                    return f"{host.name} does not know all that {history.title} has"
        return ""

    def disagreement(self, hosts: list[NodeHost]) -> str:
        """Return a node that is behind with the definitions; "" when all have applied the same."""
        upto = self._history(DEFINITIONS_GROUP, 0).commit
        for host in hosts:
            agreement = host.node.broker.clustered
            assert agreement is not None
            member = agreement.member
            if member is None or member.raft.member.log.commit < upto:
                return f"{host.name} does not know what is agreed on"
            if member.due or agreement.undecided:
                return f"{host.name} has not applied what is agreed on"
            self._compare_declared(host.number, agreement)
        return ""
