"""Goal: a node that is left of a cluster goes on alone with all that it has, and never has to do
with the others again.

Method: whole brokers in simulated time, of which two lose their machines, or come back; the disk
fails at each step of the command.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random

import pytest

from sluicemq.amqp import methods as m
from sluicemq.broker.force_boot import ForceBoot, QueueAtRisk
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.cluster.node_file import kept_record
from sluicemq.errors import DiskFailed, Refused
from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import AddMember
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.raft.configuration import Configuration
from sluicemq.sim.disk import SimFiles
from support.linked_brokers import Cluster, LinkedBroker
from support.newcomer import Newcomer


def classic(run: Cluster, node: int, name: str, *bodies: bytes) -> None:
    """A classic queue of that node, with messages."""
    client = run.brokers[node - 1].connect()
    client.call(1, m.QueueDeclare(queue=name, durable=True), m.QueueDeclareOk)
    client.publish(*bodies, queue=name)
    run.until(client.all_confirmed)
    client.lose()


def stopped() -> Cluster:
    """Three nodes that have stopped, with a quorum queue of 20 messages and a classic one of two
    nodes each."""
    run = Cluster()
    run.declare()
    publisher = run.brokers[1].connect()
    publisher.publish(*(b"%d" % n for n in range(20)))
    run.until(publisher.all_confirmed)
    classic(run, 1, "of one", b"a", b"b")
    classic(run, 2, "of two", b"c")
    run.until(lambda: all(each.has("of two") for each in run.brokers))
    run.rest(1000)  # node 1 has all of it, too
    for each in run.brokers:
        each.crash(power=True)
    return run


def boot(files: SimFiles) -> ForceBoot:
    return ForceBoot(files, Random(1).randbytes, lambda *_: None)


def content(files: SimFiles) -> dict[str, bytes]:
    return {path: bytes(each.data) for path, each in files.inodes.items()}


def voters(broker: LinkedBroker, group: int = DEFINITIONS_GROUP) -> list[int]:
    """The nodes that vote in a group, as its checkpoints and its journal have it."""
    if group == DEFINITIONS_GROUP:
        clustered = broker.node.broker.clustered
        assert clustered is not None
        assert clustered.member is not None
        return [*clustered.member.raft.configuration.voters]
    return sorted(map(node_of, broker.shell().raft.configuration.voters))


def test_who_is_left_goes_on_with_all_it_has() -> None:
    run = stopped()
    one = run.brokers[0]
    made = boot(one.files)
    assert [each.node for each in made.others] == [2, 3]
    assert {*made.at_risk()} == {
        QueueAtRisk("/", "q", "quorum", is_lost=False),
        QueueAtRisk("/", "of two", "classic", is_lost=True),
    }
    made.run()
    one.start()
    run.until(lambda: one.node.is_open and not one.has("of two"))
    client = one.connect()
    assert client.depth("of one") == 2
    run.until(lambda: client.depth() == 20)
    client.publish(b"20")
    run.until(client.all_confirmed)
    assert not client.nacked
    client.consume()
    run.until(lambda: len(client.bodies) == 21)
    assert client.bodies == [b"%d" % n for n in range(21)]
    assert voters(one) == [1]
    queue = one.node.broker.definitions.hosts["/"].queues["q"]
    run.until(lambda: not queue.leaving and [*map(node_of, queue.members)] == [1])
    assert voters(one, queue.id) == [1]
    one.crash(power=True)
    one.start()
    run.until(lambda: one.node.is_open)
    client = one.connect()
    run.until(lambda: client.depth() == 21)
    run.no_faults()


def test_those_that_come_back_are_another_cluster() -> None:
    """Also when they are the majority, and were wrongly taken for lost: nobody makes the others
    end, and what each confirms stays with it."""
    run = stopped()
    one, two, three = run.brokers
    boot(one.files).run()
    for each in run.brokers:
        each.start()
    run.until(lambda: all(each.node.is_open for each in run.brokers))
    for each in (one, three):
        client = each.connect()
        client.publish(b"of %d" % each.number)
        run.until(client.all_confirmed)
        assert not client.nacked
        client.lose()
    run.rest(30_000)
    assert not one.is_up(2)
    assert not two.is_up(1)
    assert two.is_up(3)
    assert [each.said_goodbye for each in run.brokers] == ["", "", ""]
    last = {}
    for each in (one, two):
        client = each.connect()
        client.consume()
        run.until(lambda client=client: len(client.bodies) == 21)
        last[each.number] = client.bodies[-1]
    assert last == {1: b"of 1", 2: b"of 3"}
    assert any("force-boot" in line or "belongs to the cluster" in line for line in two.log.lines)
    run.no_faults()


def test_who_is_left_behind_and_comes_back_alone_says_so_once() -> None:
    """Though nobody connects to it: it has a higher number than the node that goes on."""
    run = stopped()
    one, _, three = run.brokers
    boot(one.files).run()
    one.start()
    three.start()
    run.rest(60_000)
    assert sum("this node was left behind" in line for line in three.log.lines) == 1
    assert not three.said_goodbye
    run.no_faults()


def test_another_node_joins_it_and_has_members() -> None:
    run = stopped()
    one = run.brokers[0]
    boot(one.files).run()
    one.start()
    run.until(lambda: one.node.is_open)
    nodes = one.node.broker.definitions.nodes
    run.until(lambda: {*nodes.removed} == {2, 3})  # their names are free
    newcomer = Newcomer(run, 2)
    run.brokers.append(newcomer)
    run.until(lambda: newcomer.is_open)
    assert newcomer.number_there == 4
    run.until(lambda: voters(one) == [1, 4])
    queue = one.node.broker.definitions.hosts["/"].queues["q"]
    one.node.broker.agreement.propose(AddMember("/", "q", queue.id, 4))
    run.until(lambda: isinstance(newcomer.node.broker.vhosts["/"].queues["q"], SharedShell))
    run.until(lambda: voters(one, queue.id) == [1, 4])
    one.crash(power=True)
    one.start()
    run.until(lambda: one.node.is_open and one.is_up(4))
    client = newcomer.connect()
    run.until(lambda: client.depth() == 20)
    run.no_faults()


def test_looking_changes_nothing() -> None:
    files = stopped().brokers[0].files
    before = content(files)
    boot(files)
    assert content(files) == before


def test_cut_off_anywhere_it_is_done_again() -> None:
    """And at no time are the groups alone in the cluster that the others belong to."""
    files = stopped().brokers[0].files
    steps = 0
    while cut_off_after(steps, found := copy.deepcopy(files)):
        assert not is_alone(found) or cluster_of(found) != cluster_of(files)
        boot(found).run()
        assert_alone(found)
        steps += 1
    assert_alone(found)
    assert steps > 10


def cut_off_after(steps: int, files: SimFiles) -> bool:
    """Do it on files that fail after so many changes. Tell whether it was cut off."""
    left = steps
    changing = ("write", "sync", "rename", "delete", "sync_directory", "make_directory")

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def change(*args: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise DiskFailed("somewhere", "EIO", "the machine stops")
            return real(*args)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for name in changing:
            patch.setattr(files, name, failing(getattr(files, name)))
        try:
            boot(files).run()
        except DiskFailed:
            return True
    return False


def cluster_of(files: SimFiles) -> str:
    record = kept_record(files)
    assert record is not None
    return record.cluster


def is_alone(files: SimFiles) -> bool:
    groups = boot(files).recovery.groups.found.values()
    return any(b"1//3" in [each.data for each in durable.entries] for durable in groups)


def assert_alone(files: SimFiles) -> None:
    record = kept_record(files)
    assert record is not None
    assert [each.node for each in record.left_behind] == [2, 3]
    found = boot(files).recovery
    assert len(found.groups.groups) == 2
    for group_id, durable in found.groups.found.items():
        newest = [each for each in durable.entries if each.kind == "members"][-1]
        assert newest.data == b"1//3", group_id


def test_refused_where_it_makes_no_sense() -> None:
    with pytest.raises(Refused, match="does not belong to a node of a cluster"):
        boot(SimFiles())
    run = stopped()
    one = run.brokers[0]
    boot(one.files).run()
    one.start()
    run.until(lambda: one.node.is_open and voters(one) == [1])
    nodes = one.node.broker.definitions.nodes
    run.until(lambda: {*nodes.removed} == {2, 3})
    run.rest(1000)  # the journal knows that it is agreed on
    one.crash()
    with pytest.raises(Refused, match="n1 is the only node of its cluster"):
        boot(one.files)


@pytest.mark.parametrize(
    ("before", "steps"),
    [
        (Configuration((1, 2, 3)), ["1,3//2", "1//3"]),
        (Configuration((2, 3), (1,)), ["1,2,3/", "1,3//2", "1//3"]),
        (Configuration((1,), (4,), 3), ["1//4"]),
        (Configuration((1,)), []),
    ],
)
def test_members_go_one_by_one(before: Configuration, steps: list[str]) -> None:
    found = before.steps_to_sole(1)
    assert [each.encoded().decode() for each in found] == steps
    for older, newer in zip([before, *found], found, strict=False):
        assert newer.is_one_step_from(older)
        assert newer.has_no_former(older)
