"""Goal: no promise is broken in 200 seeded runs, a seed is a run, and there are mistakes in every
kind of actor.

Method: run them all once, in two processes; run some again from the sources, under another hash
seed; find all kinds of actors in the code.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import sluicemq
from sim.run_seeds import CHECK_EVERY, run, steps_of
from sim.seed_pool import reports_of
from sluicemq.broker.node_notices import NodeNotices
from sluicemq.broker.recovery_report import RecoveryReport
from sluicemq.chain.channel.channel_port import ChannelPort
from sluicemq.chain.channel.connection_port import ConnectionPort
from sluicemq.chain.channel.methods import WholeChannel
from sluicemq.chain.channel.reply_post import ReplyPost
from sluicemq.chain.connection.severing import Severable
from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
from sluicemq.chain.definitions.registrar import NodeRegistrar
from sluicemq.chain.flow_actor import FlowActor
from sluicemq.chain.queue.former_queue import FormerQueue
from sluicemq.chain.queue.group.member_log import LogForgetter
from sluicemq.chain.queue.local_queue import LocalQueue
from sluicemq.chain.queue.mirrored.master import MasterShell
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.chain.queue.mirrored.member_port import MemberPort
from sluicemq.chain.queue.mirrored.move import MirrorMove
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.queue.queue_timers import TimedQueue
from sluicemq.chain.queue.quorum.asked_queue import AskedQueue
from sluicemq.chain.queue.quorum.member_shell import MemberShell
from sluicemq.chain.queue.quorum.quorum_port import QuorumPort
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.chain.queue.quorum.status_post import StatusPost
from sluicemq.chain.queue.republish_messages import RepublisherPort
from sluicemq.chain.queue.vhost_port import NamedQueue
from sluicemq.chain.remote.figures_teller import FiguresTeller
from sluicemq.chain.remote.home_follower import HomeFollower
from sluicemq.chain.remote.mirrored_stand_in import MirroredStandIn
from sluicemq.chain.remote.pace_teller import PaceTeller
from sluicemq.chain.remote.queue_post import QueuePost
from sluicemq.chain.remote.remote_channel import RemoteChannel
from sluicemq.chain.remote.remote_end import RemoteQueuePort
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.chain.store.messages import StoreClient
from sluicemq.chain.store.store_port import StorePort
from sluicemq.chain.writer import WriterClient
from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.connection import LinkConnection
from sluicemq.cluster.joining import ClusterJoining
from sluicemq.cluster.membership import ClusterMembership
from sluicemq.host.joining import JoiningCommand
from sluicemq.host.watchdog import Pulse
from sluicemq.kernel.actor import Actor, Share
from sluicemq.manage.node_post import NodePost
from sluicemq.replication.ask_post import AskPost
from sluicemq.replication.raft_post import RaftPost
from sluicemq.sim.report import RunReport
from sluicemq.sim.run import STEPS, simulate
from sluicemq.sim.swarm import SWARM_PROFILES
from support.thorough import THOROUGH

SEEDS = (*range(200), 233, 470)
"""The last two make mistakes in the message store and in the deadlines of connections, of which
there is little chance."""
REPLAYED = range(0, 200, 40)
REGRESSIONS = Path(__file__).with_name("regressions.txt")

ENGAGED = {
    "confirmed": 5_500,
    "redelivered": 450,
    "returned": 80,
    "reader paused": 1_300,
    "pulls": 340,
    "writer refused": 5_000,
    "gate reader>channel": 2_900,
    "gate channel>queue": 2_500,
    "gate queue>store": 650,
    "gate deliveries": 2_200,
    "gate store full": 120,
    "blocked ms reader": 19_000,
    "alarms": 70,
    "clients told blocked": 135,
    "buried": 440,
    "commands": 500,
    "read": 270,
    "entries of quorum queues": 1_400,
    "states read back": 30,
    "fault broken": 75,
    "fault channel_errors": 48,
    "fault silent": 9,
    "fault stalls": 185,
}
"""What must have happened over all seeds, about half of what does: a simulation in which flow
control has nothing to do would pass idly."""

BASES: Final = (
    Actor,
    ChannelPort,
    ConnectionPort,
    FlowActor,
    LocalQueue,
    MemberPort,
    MemberShell,
    TimedQueue,
    NamedQueue,
    Queue,
    AskedQueue,
    QuorumPort,
    FormerQueue,
    HomeFollower,
    RemoteQueuePort,
    RepublisherPort,
    Severable,
    StoreClient,
    StorePort,
    WholeChannel,
    WriterClient,
)
"""What actors have in common; nobody is only that."""

PACKAGES: Final = ("kernel", "chain", "manage", "host", "cluster", "broker", "replication")
"""Those that a node's actors are in; simulations add some of their own."""

SPARED: Final[dict[type[Actor], str]] = {
    Share: "gives turns to a connection's actors, and contains their faults as the scheduler does",
    Pulse: "of the host: tells the watchdog that turns are given",
    RecoveryReport: "of a start: has said what was found before a client comes",
    NodeCluster: "of nodes that are linked, which `sluicemq.sim.cluster` simulates",
    LinkConnection: "of nodes that are linked, which `sluicemq.sim.cluster` simulates",
    ClusterJoining: "of a node that joins a cluster and is no broker yet",
    JoiningCommand: "of such a node, too",
    RaftPost: "of nodes that are linked: tests of linked nodes have groups agree over it",
    NodePost: "of the host: asks other nodes for lists; tests/management/test_cluster.py has three",
    ClusterMembership: "of nodes that are linked: tests of real processes found clusters with it",
    **dict.fromkeys(
        (
            AskPost,
            ClusterAgreement,
            FiguresTeller,
            LogForgetter,
            NodeNotices,
            NodeRegistrar,
            PaceTeller,
            QueuePost,
            RemoteChannel,
            RemoteQueue,
            ReplyPost,
            SharedShell,
            StatusPost,
        ),
        "of nodes that are a cluster, which `sluicemq.sim.nodes` simulates",
    ),
    **dict.fromkeys(
        (MasterShell, MirrorMember, MirrorMove, MirroredStandIn),
        "of mirrored queues, which only clusters have: tests/cluster/test_torture.py hurts some",
    ),
}


@cache
def reports() -> list[RunReport]:
    """All seeds, once a test run."""
    return reports_of(run, SEEDS)


def digests(seeds: range, hash_seed: str) -> list[str]:
    """Of each seed, by the sources, in a process of its own."""
    runs = [(seed, steps_of(seed)) for seed in seeds]
    program = (
        "from sluicemq.sim.run import simulate\n"
        f"for seed, steps in {runs}: print(simulate(seed, steps).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ
        | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(sluicemq.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.timeout(1800)
def test_no_promise_is_broken() -> None:
    failed = [
        f"sluicemq sim {r.seed} --steps {steps_of(r.seed)}: {r.phase}: {r.failure}"
        for r in reports()
        if r.failure
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.timeout(1800)
def test_flow_control_had_something_to_do() -> None:
    sums = {name: sum(report.figures[name] for report in reports()) for name in ENGAGED}
    idle = {name: sums[name] for name, least in ENGAGED.items() if sums[name] < least}
    assert not idle, f"less than {ENGAGED}"
    stopped = [report.seed for report in reports() if report.figures["reader paused"]]
    assert len(stopped) > len(SEEDS) // 2, "a reader must have stopped in most of the runs"


@pytest.mark.timeout(1800)
def test_every_profile_is_simulated() -> None:
    assert {report.profile for report in reports()} == set(SWARM_PROFILES)


@pytest.mark.timeout(1800)
def test_same_seed_gives_same_trace_under_another_hash_seed() -> None:
    expected = [reports()[seed].digest for seed in REPLAYED]
    assert digests(REPLAYED, "4242") == expected
    assert len(set(expected)) == len(expected)


def test_a_profile_can_be_chosen_for_a_seed() -> None:
    chosen = [simulate(5, steps=300, profile=profile) for profile in SWARM_PROFILES]
    assert [report.profile for report in chosen] == list(SWARM_PROFILES)
    assert not any(report.failure for report in chosen)


def kinds_of_actors() -> set[type[Actor]]:
    """All that a node has; what simulations add is left out."""
    for package in PACKAGES:
        path = f"{next(iter(sluicemq.__path__))}/{package}"
        for module in pkgutil.walk_packages([path], f"sluicemq.{package}."):
            import_module(module.name)
    found: set[type[Actor]] = set()
    new = [Actor]
    while new:
        kind = new.pop()
        found.add(kind)
        new += kind.__subclasses__()
    own = tuple(f"sluicemq.{package}." for package in PACKAGES)
    return {kind for kind in found if kind.__module__.startswith(own)}


def test_every_kind_of_actor_is_known() -> None:
    """Those that are spared exist, and so do the bases."""
    assert kinds_of_actors() >= {*SPARED, *BASES}


@pytest.mark.timeout(1800)
def test_mistakes_are_made_in_every_kind_of_actor() -> None:
    made = {
        name.removeprefix("mistake ")
        for report in reports()
        for name in report.figures
        if name.startswith("mistake ")
    }
    wanted = {kind.__name__.lower() for kind in kinds_of_actors() - {*SPARED, *BASES}}
    assert made == wanted


def regressions() -> list[tuple[str, str]]:
    """Seeds that once failed: `SEED what was wrong`, or `SEED/STEPS what was wrong`, on each
    line; with `plain` behind the number, if they were so before there were features. Those
    `make thorough` tries alone."""
    lines = [line for line in REGRESSIONS.read_text().splitlines() if line[:1] not in ("", "#")]
    found = [(line.split()[0], line) for line in lines]
    return [each for each in found if THOROUGH or not each[0].endswith("plain")]


@pytest.mark.parametrize(("which", "line"), regressions())
def test_a_seed_that_once_failed_passes(which: str, line: str) -> None:
    seed, _, steps = which.removesuffix("plain").partition("/")
    plain = which.endswith("plain")
    report = simulate(int(seed), int(steps or STEPS), plain=plain, check_every=CHECK_EVERY)
    assert not report.failure, f"{line}\n{report.trace}"
