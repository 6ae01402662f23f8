"""Goal: whatever happens to the files of a data directory, it is named, or nothing is lost.

Method: a node on simulated files meets every kind of them, and is killed, or stopped. Each file is
flipped, cut, emptied, deleted, swapped, copied and replaced by a directory, strays are put
everywhere, and directories are taken away. Of each such directory fsck is asked, and a node is
started on it: it is refused and names the loss, or says what is damaged, or has everything. Both
must agree. What was refused starts when the loss is accepted, and after a repair, and then there is
nothing more to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from sim.crash_bench import CONFIG, WORKING, Bench, State, first_state
from sim.test_storage_crashes import LARGE, SMALL, declare
from sluicemq.amqp import methods as m
from sluicemq.errors import Refused
from sluicemq.kernel.world import World
from sluicemq.node import Node
from sluicemq.sim.disk import SimDisk, SimFiles, parent_of
from sluicemq.sim.inode import Inode
from sluicemq.sim.net import SimNet
from sluicemq.sim.swarm import swarm_of
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.world import SimClock, SimDice, SimLog, SimMemory
from sluicemq.storage.fsck import Check
from sluicemq.storage.repair import Repair
from support.thorough import thorough

SIZES = replace(CONFIG, storage=replace(CONFIG.storage, journal_file_size_limit=4096))
STRIDE = thorough(8, 1)
"""Of so many damages that are beside one another one is done, after a kill another than after a
stop."""

PUT_BACK = ("quarantine", "reserve", "transient", "messages/transient")
"""Nothing in here is ever needed."""


def live(state: State) -> None:
    """All kinds of files, with something alive in each."""
    bench = Bench(state, config=SIZES)
    declare(bench, state.facts)
    admin = bench.hand("streams")
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4096}
    admin.ask(m.QueueDeclare(queue="s", durable=True, arguments=arguments))
    state.book.queue("s")
    publisher = bench.hand("publisher", confirming=True)
    for _ in range(9):
        publisher.publish(4, WORKING, SMALL)
        publisher.publish(3, WORKING, LARGE)
        publisher.publish(4, ("s",), LARGE)
        publisher.confirmed()
    bench.rest(3000)
    if state.action == "stop":
        for peer in list(bench.peers):
            peer.close()
        bench.stop()


@cache
def lived(how: str) -> SimFiles:
    """The files of a node that has ended so."""
    state = first_state()
    state.action = how
    live(state)
    state.files.kill()
    return state.files.copy()


class Outcome:
    """What a start on these files did. `content`: what there is afterwards, None when refused."""

    def __init__(self, files: SimFiles, accept_loss: bool = False) -> None:
        self.refused = ""
        self.said = SimLog()
        self.content: dict[str, object] | None = None
        timeline = Timeline()
        swarm = swarm_of(1)
        world = World(
            SimClock(timeline),
            SimDice(Random(1)),
            SimDisk(timeline, Random(1), files),
            SimNet(timeline, Random(1), swarm),
            SimMemory(1 << 40),
            self.said,
        )
        try:
            Node(world, SIZES, accept_loss=accept_loss)
        except Refused as refused:
            self.refused = str(refused)
            return
        counted = Check(files).run().counted
        self.content = {
            "live": counted["live_messages"],
            "chunks": counted["chunks"],
            "queues": counted["queues"],
        }


Damage = Callable[[SimFiles], None]


def fake_directory(files: SimFiles, path: str) -> None:
    """A directory where a file should be."""
    files.delete(path)
    files.make_directory(path)


def swap(files: SimFiles, one: str, other: str) -> None:
    inodes = files.inodes
    inodes[one], inodes[other] = inodes[other], inodes[one]


def copy(files: SimFiles, path: str, to: str) -> None:
    files.make_directory(parent_of(to))
    files.inodes[to] = inode = Inode()
    inode.write(0, bytes(files.inodes[path].data))


def damages(files: SimFiles) -> Iterator[tuple[str, Damage]]:
    """(name, damage) of everything that is done."""
    paths = [path for path in files.inodes if not path.startswith(PUT_BACK)]
    for path in paths:
        size = files.size(path)
        for place in {0, 9, 30, 70, size // 2, size - 9}:
            if 0 <= place < size:
                yield f"flip {path} {place}", lambda f, p=path, at=place: f.flip(p, at)
        for left in {0, 40, size // 2, size - 1}:
            yield f"cut {path} {left}", lambda f, p=path, n=left: f.truncate(p, n)
        yield f"delete {path}", lambda f, p=path: f.delete(p)
        yield f"directory {path}", lambda f, p=path: fake_directory(f, p)
        for other in paths:
            if other > path and parent_of(other) == parent_of(path):
                yield f"swap {path} {other}", lambda f, p=path, o=other: swap(f, p, o)
        stem, _, ending = path.rpartition(".")
        if ending and stem[-1:].isdigit():
            beside = f"{stem[:-2]}99.{ending}"
            yield f"copy {path} {beside}", lambda f, p=path, to=beside: copy(f, p, to)
        stray = f"{parent_of(path)}/stray".lstrip("/")
        yield f"stray {stray}", lambda f, to=stray: f.write(to, 0, b"?")
    for directory in [each for each in files.directories if each]:
        if not directory.startswith(PUT_BACK):
            yield f"without {directory}", lambda f, d=directory: f.delete_tree(d)
    for directory in ("queues/77", "streams/77", "queues/x", "queues", "journal", "checkpoint"):
        stray = f"{directory}/empty"
        yield f"empty {stray}", lambda f, d=stray: f.make_directory(d)


def state_of(files: SimFiles) -> dict[str, bytes]:
    return {path: bytes(inode.data) for path, inode in files.inodes.items()}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_script_meets_every_kind_of_file(how: str) -> None:
    kinds = {path.partition("/")[0] for path in lived(how).inodes}
    assert {"manifest", "checkpoint", "journal", "queues", "messages", "streams"} <= kinds
    assert Check(lived(how)).run().findings == []
    outcome = Outcome(lived(how).copy())
    assert (outcome.refused, outcome.said.errors) == ("", [])


@cache
def sound(how: str) -> dict[str, object] | None:
    """What there is without any damage."""
    return Outcome(lived(how).copy()).content


def wrong(how: str, damage: Damage) -> str:
    """What is wrong with how a damage is dealt with, "" when nothing is."""
    files = lived(how).copy()
    damage(files)
    before = state_of(files)
    try:
        verdict = Check(files).run()
    except Refused as refused:  # whoever put that there must take it away
        return "" if str(refused) == Outcome(files).refused else f"fsck says {refused}"
    if state_of(files) != before:
        return "fsck has changed something"
    outcome = Outcome(files)
    if bool(outcome.refused) != bool(verdict.losses):
        return f"the start says {outcome.refused!r}, fsck {verdict.losses}"
    if outcome.said.errors and not verdict.findings:
        return f"the start says {outcome.said.errors}, fsck nothing"
    if outcome.refused:
        if state_of(files) != before:
            return "a start that was refused has changed something"
        return went_on(files, before)
    if outcome.content != sound(how) and not verdict.findings:
        return f"nothing is said, and there is {outcome.content}, not {sound(how)}"
    return ""


def went_on(files: SimFiles, before: dict[str, bytes]) -> str:
    """Accepted, and repaired: nothing more is found."""
    accepted = files.copy()
    first = Outcome(accepted, accept_loss=True)
    if first.refused:
        return f"accepted, and still: {first.refused}"
    again = Outcome(accepted)
    if again.refused:
        return f"after it was accepted: {again.refused}"
    dice = SimDice(Random(2))
    Repair(files, lambda: dice.token(16), lambda *_: None).run()
    left = Check(files).run()
    if left.findings:
        return f"after the repair: {left.findings}"
    for left_files in (accepted, files):
        kept = {*state_of(left_files).values()}
        for path, data in before.items():
            is_done_with = path.startswith(("checkpoint", "journal", "manifest", *PUT_BACK))
            is_there = any(each.startswith(data[:200]) for each in kept)
            if not (is_done_with or is_there or not any(data) or left_files.size(path) >= 0):
                return f"{path} was deleted"
    return ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_every_damage_is_named_or_nothing_is_lost(how: str) -> None:
    found = []
    tried = 0
    begin = (how == "stop") * STRIDE // 2
    for name, damage in islice(damages(lived(how)), begin, None, STRIDE):
        tried += 1
        try:
            text = wrong(how, damage)
        except Exception as error:  # whatever is raised in there is a finding
            text = f"{type(error).__name__}: {error}"
        if text:
            found.append(f"{name}: {text}")
    assert tried > 200 // STRIDE
    assert not found, f"{len(found)} of {tried}\n" + "\n".join(found)
