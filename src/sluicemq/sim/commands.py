"""The operator's control commands in a run: a few at a time, each of which must be answered once.

The run compares each change with what the broker knows (`held`): once a command is answered its
change is there, over every restart; before the answer it may be there or not. When a command that
sets or clears a policy is answered, the policy holds for every queue.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.lists import LISTS
from sluicemq.manage.tables import DEFAULTS
from sluicemq.manage.task import CommandAnswer, Task, start
from sluicemq.model.policies import OperatorPolicy, Policy
from sluicemq.sim.quorum_plans import QUORUM_DYING, QUORUM_FADING, QUORUM_VOLATILE
from sluicemq.sim.records import DYING, LASTING, VOLATILE, promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.node import Node
    from sluicemq.sim.peer import SimPeer, Stage

AT_ONCE_MAX: Final = 3
"""The most commands under way at a time."""
PAUSE_NS: Final = 20 * MS

ASKING: Final = (
    *LISTS,
    "status",
    "chain",
    "ping",
    "alarms",
    "environment",
    "cluster_status",
    "export_definitions",
    "list_policies",
    "list_unresponsive_queues",
    "list_vhosts",
)
"""Commands that change nothing."""

POLICIES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    Policy.KIND: (
        {"max-length": 2},
        {"max-length": 10, "message-ttl": 50},
        {"message-ttl": 5},
        {"max-length-bytes": 500},
        {"delivery-limit": 1},
        {"queue-mode": "lazy"},
    ),
    OperatorPolicy.KIND: ({"max-length": 5}, {"message-ttl": 100}),
}
"""The definitions of policies. They apply only to queues that may lose messages by them: what
exceeds a limit is dropped or dead-lettered."""
PATTERNS: Final = (f"^{DYING}$", f"^{VOLATILE}$", f"^({DYING}|{VOLATILE})")
QUORUM_PATTERN: Final = f"^({QUORUM_DYING}|{QUORUM_FADING}|{QUORUM_VOLATILE})$"
SETTERS: Final = {Policy.KIND: "policy", OperatorPolicy.KIND: "operator_policy"}

Record = tuple[str, tuple[str, str]]
"""Kind and key of a durable definition."""
Value = dict[str, Any] | None
"""The definition of a policy; None when there is none."""


class Steward:
    """Gives the commands of one run."""

    def __init__(self, work: Stage) -> None:
        self.work = work
        self.random = Random(f"commands {work.swarm.seed}")
        plans = work.swarm.queues
        self.volatile = [plan.name for plan in plans if plan.promise == VOLATILE]
        self.patterns: tuple[str, ...] = PATTERNS
        if work.swarm.features.quorum is not None:
            self.patterns = (*PATTERNS, QUORUM_PATTERN)
        self.begun = 0
        self.answered = 0
        self.open: dict[int, str] = {}
        """Commands under way, by number."""
        self.changing: dict[int, Record] = {}
        """The records that they change."""
        self.leaving: dict[int, SimPeer] = {}
        """The clients whose connections they close."""
        self.held: dict[Record, list[Value]] = {}
        """The values that a record may have; a single one when it is known."""
        self.plant_next: Callable[[Task], None] | None = None
        """Plants a mistake in the next command."""
        self.mistaken: dict[int, None] = {}
        """Commands that may hit a planted mistake."""

    def begin(self) -> None:
        """Begin to give commands at random times."""
        self.plan()

    def plan(self) -> None:
        delay_ns = 1 + self.random.randrange(PAUSE_NS)
        self.work.timeline.after(delay_ns, "operator", "commands", self.act)

    def act(self, _: object) -> None:
        """Give the next command, unless the node is down or busy with others."""
        if self.work.healing:
            return
        self.plan()
        node = self.work.node
        if self.work.up and len(self.open) < AT_ONCE_MAX:
            self.choose(node)

    def choose(self, node: Node) -> None:
        """Choose a command, which may only look or change something."""
        kind = self.random.randrange(8)
        if kind <= 2:
            name = self.random.choice(ASKING)
            arguments = {"columns": [*DEFAULTS[name]]} if name in LISTS else {}
            self.give(node, name, arguments)
        elif kind == 3:
            self.close_connection(node)
        elif kind == 4 and self.volatile:
            name = self.random.choice(("purge_queue", "delete_queue"))
            few = len(self.volatile) == 1
            queue = self.volatile[0] if few else self.random.choice(self.volatile)
            self.give(node, name, {"queue": queue})
        else:
            self.change_policy(node)

    def close_connection(self, node: Node) -> None:
        """Close the connection of one client, which is told to expect it."""
        peers = [p for p in self.work.peers[1:] if p.open and not (p.leaving or p.mistaken)]
        peers = [peer for peer in peers if not peer.sent_away]
        if peers and self.work.swarm.breaks:
            peer = self.random.choice(peers)
            peer.expect_order()
            self.leaving[self.begun + 1] = peer
            self.give(node, "close_connection", {"connection": peer.socket.reader.name})

    def change_policy(self, node: Node) -> None:
        """Set or clear a policy that no other command is changing."""
        kind = self.random.choice((Policy.KIND, Policy.KIND, OperatorPolicy.KIND))
        record = (kind, ("/", f"p{self.random.randrange(3)}"))
        if record in self.changing.values():
            return
        before = self.held.setdefault(record, [None])
        name = record[1][1]
        if self.random.randrange(3) == 0:
            self.change(node, record, None, f"clear_{SETTERS[kind]}", {"name": name})
            return
        says = self.random.choice(POLICIES[kind])
        pattern = self.random.choice(self.patterns)
        arguments = {"name": name, "pattern": pattern, "definition": json.dumps(says)}
        arguments["apply_to"] = "queues"
        if before != [says]:
            self.change(node, record, says, f"set_{SETTERS[kind]}", arguments)

    def change(
        self, node: Node, record: Record, value: Value, name: str, arguments: dict[str, Any]
    ) -> None:
        """Give a command after which `record` has that value."""
        self.held[record].append(value)
        self.changing[self.begun + 1] = record
        self.give(node, name, arguments)

    def give(self, node: Node, name: str, arguments: dict[str, Any]) -> None:
        """Give one command to the node; one answer must come."""
        self.begun += 1
        number = self.begun
        self.open[number] = name

        def reply(answer: CommandAnswer) -> None:
            promise(number in self.open, "command", number, name, "is answered again, or too late")
            del self.open[number]
            self.answered += 1
            self.check(node, number, name, answer)

        start(node, ACTIONS, name, arguments, reply)
        if self.plant_next is not None:
            plant, self.plant_next = self.plant_next, None
            self.mistaken[number] = None
            plant([each for each in node.scheduler.ready if isinstance(each, Task)][-1])

    # -- answers

    def check(self, node: Node, number: int, name: str, answer: CommandAnswer) -> None:
        """Check an answer against what the run knows."""
        record = self.changing.pop(number, None)
        peer = self.leaving.pop(number, None)
        if answer.error:
            if peer is not None:
                peer.break_off(None)
            text = f"{name} is refused: {answer.error}"
            promise(self.may_fail(number, name, answer), text)
            if record is not None and "does not exist" in answer.error:
                promise(None in self.held[record], name, "does not find", record)
            return
        if record is not None:
            self.now(record, self.held[record][-1])
            self.all_have_heard(node)
        if name == "list_queues":
            listed = {row["name"] for row in answer.rows}
            lasting = {plan.name for plan in self.work.swarm.queues if plan.promise in LASTING}
            promise(lasting <= listed, "list_queues does not list", *sorted(lasting - listed))

    def may_fail(self, number: int, name: str, answer: CommandAnswer) -> bool:
        """Tell whether a command may fail without a fault of the broker: its target is missing, or
        the disk has failed."""
        if number in self.mistaken and "has failed in this command" in answer.error:
            return True
        if self.work.storage_may_fail and "storage" in answer.error:
            return True
        if name in ("purge_queue", "delete_queue"):
            gone = "does not exist" in answer.error or "no queue" in answer.error
            return gone or "has crashed" in answer.error
        if name == "close_connection":
            return "there is no connection" in answer.error
        return name.startswith("clear_") and "does not exist" in answer.error

    def now(self, record: Record, value: Value) -> None:
        """Note that `record` certainly has this value."""
        possible = self.held[record]
        promise(value in possible, record, "is", value, "and can only be one of", possible)
        self.held[record] = [value]

    def all_have_heard(self, node: Node) -> None:
        """Check that each queue has the right policy, unless another change is under way, or one
        has failed."""
        if self.changing or node.broker.policy_rounds.scheduled:
            return
        for vhost in node.broker.vhosts.values():
            for queue in vhost.queues.values():
                policy = vhost.policies.for_queue(queue.name, queue.definition.type)
                same = queue.policy == policy or queue.crash is not None or queue.machine.deleted
                promise(same, queue.name, "has not heard of its policy")

    # -- the node's end, and the next one's beginning

    def crash(self) -> None:
        """Expect no more answers from this node; unanswered changes may have happened or not."""
        self.open.clear()
        self.changing.clear()
        self.leaving.clear()
        self.mistaken.clear()
        self.plant_next = None

    def started(self, node: Node) -> None:
        """Check that a new node knows all changes that were answered before."""
        for kind in POLICIES:
            records = node.broker.definitions.records[kind]
            for record in [each for each in self.held if each[0] == kind]:
                policy = records.get(record[1])
                self.now(record, None if policy is None else policy.definition)
