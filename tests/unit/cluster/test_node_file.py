"""Goal: a node is the same one after any crash, in a life it never was in; and it is never taken
for new because its file cannot be read.

Method: lives one after the other in fake files that lose all that may be lost, with a crash at
each primitive; every byte of the file changed.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from sluicemq.cluster import node_file
from sluicemq.cluster.introduction import NodeCard
from sluicemq.cluster.members import Member
from sluicemq.cluster.node_file import MetMember, NodeFile, begin_life
from sluicemq.cluster.node_path import PATH
from sluicemq.errors import Corrupt, DiskFailed, Refused
from sluicemq.kernel.world import World
from support.fakes import FakeDisk, FakeWorld, bystander, drain
from support.files import DictFiles


def world_with(files: DictFiles) -> World:
    world = FakeWorld()
    world.dice.tokens = len(files.actions)
    world.disk = FakeDisk()
    world.disk.files = files
    return world


def life(files: DictFiles) -> NodeFile:
    return begin_life(world_with(files), "c", "n1", 1)


def half_of_the_rest(durable: bytes, written: bytes) -> bytes:
    """Of what was written since the last sync half has survived."""
    return durable if durable == written else written[: len(written) // 2]


def met(number: int, incarnation: int) -> Member:
    member = Member(number, "h", 1, f"n{number}", bytes([number]) * 16)
    member.incarnation = incarnation
    return member


def test_a_node_is_itself_and_each_life_another() -> None:
    files = DictFiles()
    cards: list[NodeCard] = []
    for number in range(1, 4):
        card = life(files).card
        assert (card.cluster, card.name, card.node, card.incarnation) == ("c", "n1", 1, number)
        cards.append(card)
        files = files.crash()
    assert len({card.home for card in cards}) == 1


def test_who_was_met_is_known_in_the_next_life() -> None:
    files = DictFiles()
    world = world_with(files)
    book = begin_life(world, "c", "n1", 1)
    actor = bystander()
    assert book.write([met(2, 7), met(3, 1), Member(4, "h", 1)], actor)
    assert not drain(actor), "told before it was durable"
    assert isinstance(world.disk, FakeDisk)
    world.disk.finish()
    (job,) = drain(actor)
    assert isinstance(job, node_file.WriteNodeFile)
    assert job.failure is None
    members = [Member(2, "x", 9), Member(3, "x", 9), Member(4, "x", 9)]
    life(files.crash()).recall(members)
    assert [(each.name, each.home, each.incarnation) for each in members] == [
        ("n2", b"\2" * 16, 7),
        ("n3", b"\3" * 16, 1),
        ("", b"", 0),
    ]


def test_a_founder_that_is_lost_before_the_cluster_counts_stays_known() -> None:
    """Another node is met just then, and the file is written anew for that."""
    files = DictFiles()
    world = world_with(files)
    book = begin_life(world, "", "n1", 1, ["h1:1", "h2:1", "h3:1"])
    homes = {number: (bytes([number]) * 16).hex() for number in (2, 3)}
    others = [MetMember(number, f"n{number}", home, 1) for number, home in homes.items()]
    book.join("c", ["h1:1", "h2:1", "h3:1"], [book.own, *others], bystander())
    lost = Member(3, "h3", 1)
    assert book.write([met(2, 2), lost], bystander())
    assert isinstance(world.disk, FakeDisk)
    while world.disk.jobs:
        world.disk.finish()
    again = begin_life(world_with(files.crash()), "", "n1", 1, ["h1:1", "h2:1", "h3:1"])
    members = [Member(number, f"h{number}", 1) for number in (2, 3)]
    again.recall(members)
    kept = [(each.home.hex(), each.incarnation) for each in members]
    assert kept == [(homes[2], 2), (homes[3], 1)]


def test_a_crash_at_any_step_leaves_the_node_itself() -> None:
    first = DictFiles()
    home = life(first).card.home
    steps = len(first.actions)
    for count in range(steps + 8):
        files = first.crash()
        files.fail_after(count)
        said = 1
        with suppress(DiskFailed):
            said = life(files).card.incarnation
        for torn in (None, half_of_the_rest):
            card = life(files.crash(torn)).card
            assert card.home == home
            assert card.incarnation > said, "a life that was said already"


def test_a_failed_write_leaves_what_was() -> None:
    files = DictFiles()
    world = world_with(files)
    book = begin_life(world, "c", "n1", 1)
    actor = bystander()
    book.write([met(2, 7)], actor)
    files.fail_after(2)
    assert isinstance(world.disk, FakeDisk)
    world.disk.finish()
    (job,) = drain(actor)
    assert isinstance(job, node_file.WriteNodeFile)
    assert job.failure is not None
    assert life(files.crash()).record.members == []


def test_a_changed_byte_is_never_read() -> None:
    files = DictFiles()
    life(files)
    raw = files.content(PATH)
    for at in range(len(raw)):
        files.put(PATH, raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(Corrupt, match=r"^cluster/node is damaged: its checksum is wrong$"):
            life(files)
    for size in range(len(raw)):
        files.put(PATH, raw[:size])
        with pytest.raises(Corrupt):
            life(files)


@pytest.mark.parametrize("line", [b"[]", b"{}", b"no JSON", b'{"format":2}'])
def test_what_is_no_record_is_not_read(line: bytes) -> None:
    with pytest.raises(Corrupt, match="cannot be read"):
        node_file.decode_node_file(line + b"\n%08x\n" % node_file.value(line))


def test_a_later_format_is_not_read() -> None:
    record = node_file.NodeRecord(2, "c", "n1", 1, "00" * 16, 1, [])
    with pytest.raises(Corrupt, match="is of format 2, and only 1 is known"):
        node_file.decode_node_file(node_file.encode_node_file(record))


def test_the_data_directory_of_another_node_is_refused() -> None:
    files = DictFiles()
    life(files)
    with pytest.raises(
        Refused, match=r"that of node 1 \(n1\) of the cluster 'c', and this is to be"
    ):
        begin_life(world_with(files), "c", "n2", 2)
    with pytest.raises(Refused):
        begin_life(world_with(files), "d", "n1", 1)
