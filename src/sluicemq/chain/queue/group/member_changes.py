"""Who leads the group of a queue makes its members those that are declared, one step at a time.

    declared, and none yet   added as a learner, which is sent the log or a snapshot
    learner, caught up       promoted
    not declared any more    removed; if it leads itself, it hands over first
    leaving, out of it       the definitions hear that it is gone, and its node forgets the queue

What is declared is the wish, and only ever seen late. A leader that has not heard of the newest
wishes does no harm: whom it does not know it leaves alone, and the group itself refuses to add
whoever may have been in it before.
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
    """What is to be done next with the member `name`."""

    kind: Literal["add", "promote", "remove", "transfer"]
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
    """Return the next step of a leader `own`; None: there is none, or it has to wait. Those in
    `held` are not added yet.

    Those to come are waited for before others go, if they can be reached. Nobody is removed when
    those who are left and can be reached were no majority: nothing more would be agreed on. Of whom
    `is_known` says no the definitions here may lack the newest."""
    wished = declared.members
    for name in configuration.learners:
        if name in wished and has_caught_up(name):
            return MemberStep("promote", name)
    newest = max(configuration.removed_max, *configuration.members)
    for name in sorted(wished):
        if name > newest and name not in configuration.members:
            if name in held:
                break  # nor are those behind it: ids are added in their order only
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


def update_nodes(
    nodes: dict[int, int], found: dict[int, int], raft: Raft, raft_post: RaftPost
) -> None:
    """Have `nodes`, the node of each member, be those that were found. Who is new there, and on a
    node that is not reached, counts as lost to this node's member at once."""
    for name, node in found.items():
        if name not in nodes and raft_post.lost_ns(node) is not None:
            raft.link_lost(name)
    nodes.clear()
    nodes.update(found)


class MemberChanges:
    """Sees to the members of one queue, where `raft` is this node's."""

    def __init__(
        self, services: Services, vhost: str, queue: str, queue_id: int, raft: Raft
    ) -> None:
        self.services = services
        self.vhost = vhost
        self.queue = queue
        self.queue_id = queue_id
        self.raft = raft
        self.gone: set[int] = set()
        """Members of which was said that they are gone."""
        self.is_done = False
        """The group's members were those that are declared when it was looked last."""

    @property
    def declared(self) -> DeclaredQueue | None:
        """The queue as it is declared; None: it is not any more."""
        host = self.services.definitions.hosts.get(self.vhost)
        queue = None if host is None else host.queues.get(self.queue)
        return queue if queue is not None and queue.id == self.queue_id else None

    @property
    def nodes(self) -> dict[int, int]:
        """The node of each member: of those in the group, and of those that are declared. Who was
        added knows no others before it is sent the log."""
        declared = self.declared
        wished = () if declared is None else (*declared.members, *declared.leaving)
        names = (*self.raft.configuration.members, *wished, self.raft.member.name)
        return {name: node_of(name) for name in sorted({*names})}

    def look(self, held: Container[int] = ()) -> None:
        """Take the next step, if this member leads; those in `held` are not added yet. What cannot
        be done now is done later: time goes by for a group in which somebody lags or cannot be
        reached."""
        declared, raft = self.declared, self.raft
        self.is_done = False
        if declared is None or not raft.is_settled:
            return
        self.look_who_left(declared)
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
        """Take a step. Raises Refused when that is not possible now."""
        raft = self.raft
        log, title = self.services.world.log, f"queue '{self.queue}' in vhost '{self.vhost}'"
        if step.kind == "add":
            raft.add_learner(step.name)
            log.write("info", f"{title} gets a member on node {node_of(step.name)}")
        elif step.kind == "promote":
            raft.promote(step.name)
            log.write("info", f"the new member of {title} on node {node_of(step.name)} has it all")
        elif step.kind == "remove":
            raft.remove(step.name)
            log.write("info", f"the member of {title} on node {node_of(step.name)} is removed")
        elif heir := raft.best_heir(wished):
            raft.transfer(heir)

    def look_who_left(self, declared: DeclaredQueue) -> None:
        """Have those declared gone who are out of the group for good."""
        for name in declared.leaving:
            if name not in self.raft.configuration.members and name not in self.gone:
                self.gone.add(name)
                change = MemberLeft(self.vhost, self.queue, self.queue_id, name)
                self.services.agreement.propose(change)

    def hand_over(self) -> None:
        """Have any other member lead, for this node stops."""
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
