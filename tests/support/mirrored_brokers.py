"""Whole brokers that are linked over the pipes of the simulation, with a mirrored queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicemq.amqp import methods as m
from sluicemq.chain.queue.mirrored.master import MasterShell
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.task import CommandAnswer, start
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.model.policies import Policy
from support.linked_brokers import Cluster, LinkedBroker, LinkedClient


class Mirrored(Cluster):
    """Nodes, three as a rule, and the queue `q` that the policy makes mirrored."""

    def __init__(
        self, policy: dict[str, Any] | None = None, *, size: int = 3, **arguments: object
    ) -> None:
        super().__init__(size)
        self.set_policy(policy or {"ha-mode": "all"})
        client = self.brokers[0].connect()
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        method = m.QueueDeclare(queue="q", durable=True, arguments=named)
        client.call(1, method, m.QueueDeclareOk)
        client.lose()
        vhosts = [each.node.broker.vhosts["/"] for each in self.brokers]
        self.until(lambda: all("q" in each.queues for each in vhosts))

    def set_policy(self, definition: dict[str, Any]) -> None:
        self.set_policy_at(self.brokers[0], definition)

    def set_policy_at(self, broker: LinkedBroker, definition: dict[str, Any]) -> None:
        record = Policy("/", "mirrors", "^q", "queues", definition)
        broker.node.broker.agreement.propose(UpsertRecord(record))
        vhosts = [each.node.broker.vhosts["/"] for each in self.running]
        self.until(
            lambda: all(
                (found := each.policies.for_queue("q", "classic")) is not None
                and found.definition == definition
                for each in vhosts
            )
        )

    def member(self, broker: LinkedBroker) -> MirrorMember:
        mirrored = broker.node.broker.vhosts["/"].mirrored
        assert mirrored is not None
        [member] = mirrored.members.values()
        return member

    def has_member(self, broker: LinkedBroker) -> dict[str, Any]:
        """Return what the node's member has; nothing when it has none."""
        mirrored = broker.node.broker.vhosts["/"].mirrored
        assert mirrored is not None
        return next((vars(each) for each in mirrored.members.values()), {})

    def is_mirror(self, broker: LinkedBroker) -> bool:
        """Tell whether the master has a mirror there in sync, or is there."""
        member = self.has_member(broker)
        master = self.member(self.master_broker())
        return bool(member) and member["own"] in master.in_sync

    def masters(self) -> list[LinkedBroker]:
        return [each for each in self.running if self.has_member(each).get("served_term")]

    def master(self) -> MasterShell:
        """Return the queue of the master, when there is one that all running nodes know."""
        self.until(lambda: len(self.masters()) == 1)
        master = self.member(self.masters()[0]).master
        assert master is not None
        return master

    def master_broker(self) -> LinkedBroker:
        self.master()
        return self.masters()[0]

    def in_sync(self, count: int) -> None:
        """Wait until so many members are in sync, as the master knows."""
        self.until(lambda: len(self.member(self.master_broker()).mirror.in_sync.members) == count)

    def ctl(self, broker: LinkedBroker, command: str, **arguments: Any) -> CommandAnswer:
        """Return what a command of `sluicemq ctl` answers at a node."""
        answers: list[CommandAnswer] = []
        start(broker.node, ACTIONS, command, arguments, answers.append)
        self.until(lambda: answers)
        return answers[0]

    def listed(self, broker: LinkedBroker) -> Mapping[str, Any]:
        """Return the queue as `list_queues` shows it there."""
        columns = ["slave_pids", "synchronised_slave_pids", "state"]
        [row] = self.ctl(broker, "list_queues", columns=columns).rows
        return row


class Turned(Mirrored):
    """Three nodes, and the queue `q` that no policy mirrors yet."""

    def __init__(self, **arguments: object) -> None:
        super().__init__({"max-length": 1000}, **arguments)


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(start, end)]


def bodies_left(client: LinkedClient, count: int) -> list[tuple[bytes, bool]]:
    """Consume so many messages, and return them with whether they are flagged."""
    client.consume(tag="all")

    def come() -> bool:
        client.poll()
        return len(client.delivered) >= count

    client.run.until(come)
    return [(body, redelivered) for _, body, redelivered in client.delivered]
