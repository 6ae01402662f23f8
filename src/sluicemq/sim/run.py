"""One run: the node on its simulated World, the loop, the checkers, the verdict.

safety     clients and faults, for so many events; every promise is checked after every event;
           when the node has crashed, another one starts from the disk
liveness   the faults are over: everything must drain within a bounded virtual time
leaving    all clients close; the broker must have forgotten them
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.stream import StreamShell
from sluicemq.errors import DiskFailed
from sluicemq.flow.credit import LinkSpec
from sluicemq.sim.checkers import Checkers
from sluicemq.sim.disk import Crashed, stop_at
from sluicemq.sim.durable_image import DurableImage
from sluicemq.sim.fault_injector import FaultInjector
from sluicemq.sim.machine import Machine
from sluicemq.sim.mistakes import Mistake
from sluicemq.sim.quorum_checks import QuorumChecks
from sluicemq.sim.quorum_model import QuorumRecords
from sluicemq.sim.records import KILL, POWER, STOP, promise
from sluicemq.sim.report import ReportedRun, RunReport, ShortLog
from sluicemq.sim.swarm import Swarm, swarm_of
from sluicemq.sim.timeline import Timeline
from sluicemq.sim.totals import RunTotals
from sluicemq.sim.units import MS
from sluicemq.sim.workload import Workload

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.node import Node

STEPS: Final = 4000
"""Events of the safety phase."""

DRAIN_NS: Final = 20_000 * MS
"""Virtual time within which everything must drain, and the same for everyone to leave."""

IDLE_EVERY: Final = 64

EVENTS_MAX: Final = 1_000_000
"""A run with more events goes in circles."""

DOWN_NS_MAX: Final = 300 * MS
"""The longest time without a node after a crash."""

STOP_NS: Final = 3000 * MS
"""The time that clients have to leave when the node is stopped."""

RECOVERY_CRASH_MAX: Final = 40
"""A crash during the start comes after at most this many primitives."""


def simulate(
    seed: int,
    steps: int = STEPS,
    profile: str | None = None,
    log: ShortLog | None = None,
    plain: bool = False,
    check_every: int = 1,
) -> RunReport:
    """Run a seed to its verdict; with `plain` without features. The checkers look inside the node
    after each event that touches it, or once in `check_every` such events."""
    return Simulation(swarm_of(seed, profile, plain), steps, log, check_every).run()


class Simulation(ReportedRun):
    """The run of one seed, from an empty disk to its verdict."""

    def __init__(
        self,
        swarm: Swarm,
        steps: int = STEPS,
        log: ShortLog | None = None,
        check_every: int = 1,
    ) -> None:
        self.swarm = swarm
        self.steps = steps
        self.check_every = check_every
        self.unchecked = 0
        """Events that have touched the node since the last check."""
        self.log = log
        self.random = Random(f"crash {swarm.seed}")
        self.timeline = Timeline()
        self.machine = machine = Machine(self.timeline, swarm)
        self.net, self.disk, self.cpu = machine.net, machine.disk, machine.cpu
        self.totals = RunTotals()
        self.quorum_records = QuorumRecords()
        self.phase = "safety"
        self.finding: Exception | None = None
        """A fault that was not planted."""
        self.is_broken = False
        """The node has to end."""
        self._start()
        self.work = Workload(swarm, self.timeline, machine, self._begin_faults)
        self.fault_injector = FaultInjector(
            self.work, self.disk, machine.memory, self.cpu, self.crash, self.stop
        )
        self.checkers = self._checkers()

    def _begin_faults(self) -> None:
        self.fault_injector.plan()

    def _start(self) -> None:
        """Start a node on the present disk."""
        self.machine.start(self.swarm.config(), self._prepare)
        self.node = self.machine.node

    def _prepare(self, node: Node) -> None:
        node.scheduler.witness = self._witness
        node.broken = self._broken
        self._shrink(node)

    def _witness(self, actor: Actor, error: Exception) -> None:
        """Note a fault in a turn. A fault that was not planted is a finding."""
        if not isinstance(error, Mistake):
            self.finding = self.finding or error

    def _broken(self) -> None:
        """End the node at once, as if killed; another one starts later."""
        self.is_broken = True

    def _checkers(self) -> Checkers:
        quorum = QuorumChecks(
            self.work.book,
            DurableImage(self.disk.files),
            self.quorum_records,
            self.swarm.features.quorum,
        )
        return Checkers(
            self.node,
            self.work.book,
            self.disk,
            self.net,
            self.swarm.body_bytes_max,
            self.work.publishes,
            self.totals,
            quorum,
        )

    def stop(self) -> None:
        """Stop the node orderly, as its host does."""
        self.work.stop()
        self.node.shut_down()
        self._wait_for_stop(self.timeline.now_ns + STOP_NS)

    def _wait_for_stop(self, deadline_ns: object) -> None:
        assert isinstance(deadline_ns, int)
        node = self.node
        if self.timeline.now_ns > deadline_ns:
            self.net.abort()
        if not self.net.sockets and not node.broker.store.checkpoints.closing:
            node.close_storage()
        if node.storage_closed:
            self.crash(KILL if node.broker.store.storage_failed else STOP)
        else:
            self.timeline.after(5 * MS, "operator", "waits", self._wait_for_stop, deadline_ns)

    def crash(self, kind: str) -> None:
        """Crash the node; another one starts after a while."""
        self.checkers.over()
        power = kind == POWER or (kind == STOP and self.random.randrange(2) == 0)
        self.machine.crash(power)
        self.work.crash(kind)
        delay_ns = 1 + self.random.randrange(DOWN_NS_MAX)
        self.timeline.after(delay_ns, "operator", "starts", self._start_again)

    def _start_again(self, _: object) -> None:
        """Start a node; sometimes it crashes while it starts. Without free disk space the start
        fails and is tried again later."""
        files = self.disk.files
        if self.random.randrange(4) == 0:
            last = files.number + 1 + self.random.randrange(RECOVERY_CRASH_MAX)
            files.before = stop_at(last, self.random.random())
        try:
            self._start()
        except (Crashed, DiskFailed) as failure:
            promise(not isinstance(failure, DiskFailed) or failure.is_full, failure)
            self.totals.failed_starts += 1
            self.disk.crash(power=self.random.randrange(2) == 0)
            self.timeline.after(100 * MS, "operator", "starts", self._start_again)
            return
        files.before = None
        self.checkers = self._checkers()
        self.work.started()

    def _shrink(self, node: Node) -> None:
        """Make the fixed bounds of the chain small, so that they are reached."""
        broker = node.broker
        swarm = self.swarm
        node.scheduler.turn_max = swarm.turns.messages
        node.scheduler.turn_work = swarm.turns.work
        node.scheduler.share_work = swarm.turns.share_work
        broker.delivery_window = LinkSpec(*swarm.delivery_window)
        broker.connection_window_max = 2 * swarm.delivery_window[0]
        broker.queued_methods_max = swarm.queued_methods_max
        broker.writer_backlog_bytes = swarm.writer_backlog_bytes
        broker.store.group_bytes_max = swarm.store_group_bytes
        if swarm.features.quorum is not None:
            broker.store.quantum_bytes = swarm.features.quorum.quantum_bytes
        broker.stream_cache.limit = swarm.features.cache_bytes or 0

    def run(self) -> RunReport:
        """Run to the end, or to the first broken promise."""
        failure = trace = ""
        try:
            while self.timeline.happened < self.steps and not self.is_idle():
                self.step()
            self.phase = "liveness"
            self.fault_injector.end()
            self.until_nothing(self.down)
            self.work.heal()
            self.until_nothing(self.undrained)
            self.checkers.all_is_still()
            self.phase = "leaving"
            self.work.leave()
            self.until_nothing(self.staying)
            self.checkers.everyone_has_left()
            self.work.book.all_is_well()
        except Exception as error:  # every exception in there is a finding
            failure = f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()
        return RunReport(self, failure, trace)

    def step(self) -> None:
        """Let one event happen, then check; only turns of the node change what the checkers look
        at."""
        self.timeline.step()
        if self.finding is not None:
            raise self.finding
        if self.is_broken:
            self.is_broken = False
            self.crash(KILL)
        elif self.timeline.last[1] == "node" and self.cpu.node is not None:
            self.unchecked += 1
            if self.unchecked >= self.check_every:
                self.unchecked = 0
                self.checkers.check()
        if self.log is not None:
            self.log.write(self)

    def until_nothing(self, hinders: Callable[[], str]) -> None:
        """Go on until nothing hinders any more, for at most a fixed number of events."""
        deadline_ns = self.timeline.now_ns + DRAIN_NS
        while hindrance := hinders():
            late = self.timeline.now_ns > deadline_ns or self.timeline.happened > EVENTS_MAX
            promise(not late, "not in time:", hindrance)
            self.step()

    def is_idle(self) -> bool:
        """Tell whether nothing is published any more, so that little will happen; not called at
        every event."""
        timeline = self.timeline
        return timeline.happened % IDLE_EVERY == 0 and self.work.is_over() and not self.undrained()

    def down(self) -> str:
        """Return why no node is up; "" when clients can connect."""
        return "" if self.work.up else "the node is down"

    def undrained(self) -> str:
        """Return what is unfinished; "" when publishers have closed, queues are empty, and nothing
        is in flight."""
        broker = self.node.broker
        if not self.work.up:
            return "the node is down"
        if self.node.scheduler.is_busy or self.disk.busy() or broker.alarms.reasons:
            return "the node is busy, or there is an alarm"
        if not broker.store.is_idle or broker.store.retrying or self.checkers.quorum.is_waiting:
            return "something is to be written"
        for queue in broker.all_with_messages():
            depth = queue.machine.depth
            if isinstance(queue, StreamShell):
                if self.work.book.log(queue.name).read_to < queue.log.next_offset:
                    return f"{queue.name} has not been read"
                continue
            if depth.ready or depth.unacked or depth.footprint:
                return f"{queue.name} has {depth.ready} ready and {depth.unacked} unacked"
        for socket in self.net.sockets.values():
            due = socket.outbound or socket.inbound or socket.reader.writer.pending
            if due or socket.left:
                return f"bytes are on their way to or from {socket.client.name}"
        return self.work.undone()

    def staying(self) -> str:
        """Return a client that has not left yet; "" when all have."""
        names = [socket.client.name for socket in self.net.sockets.values()]
        if names:
            return f"{names[0]} has not left"
        is_busy = self.node.scheduler.is_busy or self.checkers.quorum.is_waiting
        return "the node is busy" if is_busy else ""
