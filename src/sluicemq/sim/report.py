"""The report of a run: verdict, digest, figures; and the short log of its last events.

The short log has one line for each event and one column for each kind of actor in the chain:

    reader    connections not read / all       channel  messages waiting, channels held up
    queue     messages waiting, ready, unacked   store    messages waiting, writes to be synced
    writer    backlog in bytes, how many choked  alarm    is one raised?
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.events import AnyPublishes
from sluicemq.chain.store.messages import StoreWrite
from sluicemq.queues.commands import Publish
from sluicemq.sim.links import CHANNEL, DELIVERIES, READER, STORE
from sluicemq.sim.totals import FULL
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.node import Node
    from sluicemq.sim.checkers import Checkers
    from sluicemq.sim.disk import SimDisk
    from sluicemq.sim.fault_injector import FaultInjector
    from sluicemq.sim.net import SimNet
    from sluicemq.sim.quorum_model import QuorumRecords
    from sluicemq.sim.swarm import Swarm
    from sluicemq.sim.timeline import Timeline
    from sluicemq.sim.totals import RunTotals
    from sluicemq.sim.workload import Workload
    from sluicemq.sim.world import Cpu

HEADING: Final = (
    f"{'event':>7} {'virtual ms':>11}  {'who':14} {'what':16}"
    f" {'reader':>7} {'channel':>9} {'queue':>14} {'store':>9} {'writer':>9} alarm"
)


class ReportedRun:
    """A run as it is reported: its clients, and its progress. Its first phase has at most `steps`
    events."""

    swarm: Swarm
    steps: int
    phase: str
    node: Node
    timeline: Timeline
    net: SimNet
    disk: SimDisk
    cpu: Cpu
    work: Workload
    fault_injector: FaultInjector
    checkers: Checkers
    totals: RunTotals
    quorum_records: QuorumRecords


class ShortLog:
    """Keeps the last lines of the short log; with 0 it prints each line at once."""

    def __init__(self, kept: int) -> None:
        self.printing = kept == 0
        self.lines: deque[str] = deque(maxlen=kept)

    def write(self, run: ReportedRun) -> None:
        """Write the line of the event that has just happened."""
        line = line_of(run)
        if self.printing:
            print(line)
        else:
            self.lines.append(line)


def line_of(run: ReportedRun) -> str:
    """Return the state of the chain in one line."""
    timeline = run.timeline
    at_ns, who, what = timeline.last
    broker = run.node.broker
    readers = list(broker.connections.values())
    channels = [channel for reader in readers for channel in reader.channels.values()]
    queues = list(broker.all_queues())
    stopped = sum(reader.tap.is_shut for reader in readers)
    in_channels = sum(
        len(each.contents) for c in channels for each in c.inbox if isinstance(each, AnyPublishes)
    )
    gates = sum(channel.keeper.gates_shut > 0 for channel in channels)
    in_queues = sum(
        len(each.batch.contents)
        for queue in queues
        for each in queue.inbox
        if isinstance(each, Publish)
    )
    ready = sum(queue.machine.depth.ready for queue in queues)
    unacked = sum(queue.machine.depth.unacked for queue in queues)
    store = broker.store
    in_store = sum(len(each.batch.contents) for each in store.inbox if isinstance(each, StoreWrite))
    waiting = sum(len(group.writes) for group in store.unclosed)
    backlog = sum(reader.writer.pending_bytes for reader in readers)
    choked = sum(reader.writer.choked for reader in readers)
    return (
        f"{timeline.happened:7} {at_ns / MS:11.3f}  {who:14.14} {what:16.16}"
        f" {f'{stopped}/{len(readers)}':>7} {f'{in_channels} {gates}':>9}"
        f" {f'{in_queues} {ready} {unacked}':>14} {f'{in_store} {waiting}':>9}"
        f" {f'{backlog} {choked}':>9} {'yes' if broker.alarms.reasons else ''}"
    )


class RunReport:
    """The figures of a finished run. Plain data: it travels between processes."""

    def __init__(self, run: ReportedRun, failure: str, trace: str) -> None:
        swarm = run.swarm
        self.seed = swarm.seed
        self.profile = swarm.profile
        self.steps = run.steps
        self.failure = failure
        self.trace = trace
        self.phase = run.phase
        self.digest = run.timeline.digest()
        self.events = run.timeline.happened
        self.virtual_s = run.timeline.now_ns / 1e9
        self.parameters = swarm.lines()
        self.figures = figures_of(run)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        shown = [f"{name:22} {value}" for name, value in self.figures.items()]
        verdict = f"FAILED in {self.phase}: {self.failure}" if self.failure else "passed"
        return [
            *self.parameters,
            "",
            *shown,
            "",
            f"{'virtual seconds':22} {self.virtual_s:.3f}",
            f"{'digest':22} {self.digest}",
            f"{'verdict':22} {verdict}",
        ]


def figures_of(run: ReportedRun) -> dict[str, int]:
    """Return the run's counts: above all, those that show flow control at work."""
    book = run.work.book
    checkers = run.checkers
    totals = run.totals
    totals.add(*checkers.gate_figures())
    shut, blocked_ns = totals.shut, totals.blocked_ns
    faults = run.fault_injector.faults
    mistakes = run.fault_injector.mistakes.happened
    return {
        "events": run.timeline.happened,
        "runs of the node": run.cpu.runs,
        "checks": totals.checks,
        "quiet moments": totals.quiet,
        "connections": run.net.opened,
        "published": book.published,
        "confirmed": book.confirmed,
        "returned": book.returned,
        "delivered": book.delivered,
        "redelivered": book.redelivered,
        "settled": book.settled,
        "buried": book.buried,
        "read": sum(len(log.entries) for log in book.logs.values()),
        "entries of quorum queues": sum(run.quorum_records.applied.values()),
        "states read back": run.quorum_records.compared,
        "commands": run.work.steward.answered,
        "syncs": run.disk.syncs,
        "reader paused": run.net.pauses,
        "pulls": run.net.pulls,
        "writer refused": run.net.refusals,
        "gate reader>channel": shut[READER],
        "gate channel>queue": shut[CHANNEL],
        "gate queue>store": shut[STORE],
        "gate deliveries": shut[DELIVERIES],
        "gate store full": shut[FULL],
        "blocked ms reader": blocked_ns[READER] // MS,
        "blocked ms channel": blocked_ns[CHANNEL] // MS,
        "blocked ms queue": blocked_ns[STORE] // MS,
        "blocked ms store": blocked_ns[FULL] // MS,
        "alarms": totals.alarms,
        "clients told blocked": run.work.blocked_count(),
        "most in the chain": totals.chain,
        "most in a queue inbox": totals.queue_inbox,
        "most in store inbox": totals.store_inbox,
        "largest backlog bytes": totals.backlog_bytes,
        "failed starts": totals.failed_starts,
        "mistakes": len(mistakes),
        **{f"mistake {name}": mistakes.count(name) for name in sorted({*mistakes})},
        **{f"fault {name}": getattr(faults, name) for name in faults.__slots__},
    }
