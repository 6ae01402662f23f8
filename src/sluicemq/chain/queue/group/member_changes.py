"""The leader of a queue's group makes the declared members its members, one step at a time.

    declared, not in it yet  added as a learner, which is sent the log or a snapshot
    learner, caught up       promoted
    not declared any more    removed; if it leads itself, it hands over first
    leaving, never in it     the group agrees to add it never
    leaving, out of it       the definitions hear that it is gone, and its node forgets the queue

The declaration is the wish, and a leader sees it late. One that has not heard of the newest wishes
does no harm: it leaves members alone that it does not know, and the group itself refuses to add one
that may have been in it before, or that was ruled out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from sluicemq.errors import Refused
from sluicemq.kernel.address import node_of, number_of
from sluicemq.metadata.changes import MemberLeft

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from sluicemq.chain.services import Services
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.raft.configuration import Configuration
    from sluicemq.raft.raft import Raft
    from sluicemq.replication.raft_post import RaftPost


class MemberStep(NamedTuple):
    """The next step for the member `name`."""

    kind: Literal["add", "promote", "remove", "transfer", "rule out"]
    name: int


def next_step(
    declared: DeclaredQueue,
    configuration: Configuration,
    own: int,
    is_known: Callable[[int], bool],
    has_caught_up: Callable[[int], bool],
    lost: Container[int],
    held: Container[int] = (),
) -> MemberStep | None:
    """Return the next step of a leader `own`; None if there is none, or it has to wait. Members in
    `held` are not added yet.

    A member that can be reached joins before others leave. No member is removed when those that are
    left and can be reached would be no majority: nothing more would be committed. If `is_known`
    denies a member, the definitions here may not have its newest state. Members with lower ids are
    added before one is ruled out, because it rules them out, too.
    """
    wished = declared.members
    newest = configuration.newest
    coming = min((each for each in wished if each > newest), default=0)
    for name in sorted(declared.leaving):
        if newest < name and (name < coming or not coming):
            return MemberStep("rule out", name)
    for name in configuration.learners:
        if name in wished and has_caught_up(name):
            return MemberStep("promote", name)
    for name in sorted(wished):
        if name > newest and name not in configuration.members:
            if name in held:
                break  # nor those behind it, because ids are only added in ascending order
            return MemberStep("add", name)
    if any(name in wished and name not in lost for name in configuration.learners):
        return None
    for name in configuration.members:
        if name in wished or not is_known(name):
            continue
        left = [each for each in configuration.voters if each != name]
        reached = [each for each in left if each not in lost]
        if len(reached) <= len(left) // 2:
            continue
        return MemberStep("transfer" if name == own else "remove", name)
    return None


def may_be_added(
    name: int, declared: DeclaredQueue, configuration: Configuration, held: Container[int] = ()
) -> bool:
    """Tell whether a member that is leaving, and never was in the group, may still be added by a
    leader that has not heard that it is leaving. None does if one with a lower id is held."""
    newest = configuration.newest
    coming = min((each for each in declared.members if each > newest), default=name)
    return name > newest and not (coming < name and coming in held)


def update_nodes(
    nodes: dict[int, int], found: dict[int, int], raft: Raft, raft_post: RaftPost
) -> None:
    """Replace `nodes`, the node of each member, by `found`. New members on nodes that are out of
    reach count as lost to this node's member at once."""
    for name, node in found.items():
        if name not in nodes and raft_post.lost_ns(node) is not None:
            raft.link_lost(name)
    nodes.clear()
    nodes.update(found)


class MemberChanges:
    """Manages the members of one queue; `raft` is this node's."""

    def __init__(
        self, services: Services, vhost: str, queue: str, queue_id: int, raft: Raft
    ) -> None:
        self.services = services
        self.vhost = vhost
        self.queue = queue
        self.queue_id = queue_id
        self.raft = raft
        self.gone: set[int] = set()
        """Members that were reported as gone."""
        self.is_done = False
        """The group's members were the declared ones at the last look."""

    @property
    def declared(self) -> DeclaredQueue | None:
        """The queue as it is declared; None if it is not any more."""
        host = self.services.definitions.hosts.get(self.vhost)
        queue = None if host is None else host.queues.get(self.queue)
        return queue if queue is not None and queue.id == self.queue_id else None

    @property
    def nodes(self) -> dict[int, int]:
        """The node of each member: of those in the group, and of declared ones. A newly added
        member knows no others until it is sent the log."""
        declared = self.declared
        wished = () if declared is None else (*declared.members, *declared.leaving)
        names = (*self.raft.configuration.members, *wished, self.raft.member.name)
        return {name: node_of(name) for name in sorted({*names})}

    def look(self, held: Container[int] = ()) -> None:
        """Take the next step if this member leads; members in `held` are not added yet. A step that
        is not possible now is tried again: ticks go on while a member lags or is out of reach."""
        declared, raft = self.declared, self.raft
        self.is_done = False
        if declared is None or not raft.is_settled:
            return
        self.look_who_left(declared, held)
        next_id = self.services.definitions.next_queue_id
        step = next_step(
            declared,
            raft.configuration,
            raft.member.name,
            lambda name: number_of(name) < next_id,
            raft.has_caught_up,
            raft.member.lost,
            held,
        )
        members = raft.configuration.voters
        self.is_done = step is None and {*members} == {*declared.members}
        if step is not None:
            try:
                self.take(step, declared.members)
            except Refused:
                return

    def take(self, step: MemberStep, wished: tuple[int, ...]) -> None:
        """Take a step. Raises Refused when it is not possible now."""
        raft = self.raft
        log, title = self.services.world.log, f"queue '{self.queue}' in vhost '{self.vhost}'"
        if step.kind == "add":
            raft.add_learner(step.name)
            log.write("info", f"{title} gets a member on node {node_of(step.name)}")
        elif step.kind == "promote":
            raft.promote(step.name)
            log.write("info", f"the new member of {title} on node {node_of(step.name)} has it all")
        elif step.kind == "rule out":
            raft.rule_out(step.name)
        elif step.kind == "remove":
            raft.remove(step.name)
            log.write("info", f"the member of {title} on node {node_of(step.name)} is removed")
        elif heir := raft.best_heir(wished):
            raft.transfer(heir)

    def look_who_left(self, declared: DeclaredQueue, held: Container[int]) -> None:
        """Report members that are out of the group for good to the definitions."""
        configuration = self.raft.configuration
        for name in declared.leaving:
            is_out = name not in configuration.members
            is_out = is_out and not may_be_added(name, declared, configuration, held)
            if is_out and name not in self.gone:
                self.gone.add(name)
                change = MemberLeft(self.vhost, self.queue, self.queue_id, name)
                self.services.agreement.propose(change)

    def hand_over(self) -> None:
        """Let any other member lead, because this node stops."""
        heir = self.raft.best_heir()
        if heir:
            self.lead_from(node_of(heir))

    def lead_from(self, node: int) -> None:
        """Hand over to the member on that node, if this one leads and that one can take over."""
        raft = self.raft
        for name in raft.configuration.voters:
            is_heir = node_of(name) == node and name not in (raft.member.name, *raft.member.lost)
            if is_heir and raft.is_leader and not raft.is_handing_over:
                raft.transfer(name)
