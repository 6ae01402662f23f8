"""Goal: a member of a quorum queue whose log is damaged is replaced, and nobody has to do it; it
has all that the others have; while these are no majority it waits.

Method: whole brokers in simulated time; a bit is turned in a segment of one of them.
"""

from __future__ import annotations

from sluicemq.chain.queue.quorum.member_shell import MemberShell
from sluicemq.kernel.address import number_of
from support.linked_brokers import Cluster, LinkedBroker

BODY = b"x" * 2000


def segments(broker: LinkedBroker, queue: int) -> list[str]:
    """The files of a queue's group that have entries."""
    directory = f"raft/{queue}"
    names = broker.files.names(directory)
    return [f"{directory}/{name}" for name in names if broker.files.size(f"{directory}/{name}")]


def member(broker: LinkedBroker) -> MemberShell:
    vhost = broker.node.broker.vhosts["/"]
    declared = broker.node.broker.definitions.hosts["/"].queues["q"]
    found = vhost.member(declared)
    assert isinstance(found, MemberShell)
    return found


def filled() -> tuple[Cluster, LinkedBroker, list[LinkedBroker]]:
    """A cluster with a queue of messages, of which each node has segments; one of those that do not
    lead, and the others."""
    run = Cluster()
    run.declare()
    leader = run.leader()
    client = leader.connect()
    queue = leader.node.broker.definitions.hosts["/"].queues["q"].id
    while not all(segments(each, queue) for each in run.brokers):
        client.publish(*[BODY] * 20)
        run.until(client.all_confirmed)
        run.rest(200)
    hurt = next(each for each in run.brokers if each is not leader)
    hurt.crash()
    path = segments(hurt, queue)[0]
    hurt.files.flip(path, hurt.files.size(path) // 2)
    return run, hurt, [each for each in run.brokers if each is not hurt]


def is_replaced(broker: LinkedBroker) -> bool:
    if not broker.node.is_open or broker.node.broker.definitions.hosts["/"].queues["q"].leaving:
        return False
    queue = broker.node.broker.vhosts["/"].queues["q"]
    return isinstance(queue, MemberShell) and number_of(queue.raft.member.name) > 0


def test_a_damaged_member_is_replaced_by_itself() -> None:
    run, hurt, others = filled()
    hurt.start()
    run.until(lambda: is_replaced(hurt))
    shells = [member(each) for each in run.brokers]
    run.until(lambda: len({each.fifo.digest() for each in shells}) == 1)
    assert shells[0].fifo.messages.count
    assert any("so it is replaced" in line for line in hurt.log.lines)
    others[0].crash()
    client = hurt.connect()
    client.publish(b"goes on")
    run.until(client.all_confirmed)
    run.no_faults()


def test_it_waits_for_the_others_and_goes_on_after_a_restart() -> None:
    run, hurt, others = filled()
    others[0].crash()
    hurt.start()
    run.until(lambda: hurt.node.is_open)
    run.rest(3000)
    declared = others[1].node.broker.definitions.hosts["/"].queues["q"]
    assert len(declared.leaving) == 1, "the only two that have the log"
    hurt.crash()
    others[0].start()
    hurt.start()
    run.until(lambda: is_replaced(hurt))
    run.no_faults()
