"""Runs `sluicemq serve`: makes the World, listens, runs until a signal."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from sluicemq import __version__
from sluicemq.errors import Corrupt, DiskFailed, LossRefused, Refused
from sluicemq.host.build_kind import build_kind
from sluicemq.host.clock import HostClock, HostDice
from sluicemq.host.cluster_secret import read_secret
from sluicemq.host.control import ControlServer, all_commands, commands_of
from sluicemq.host.descriptors import limit, raise_limit, shares
from sluicemq.host.disk import HostDisk
from sluicemq.host.file_handles import errno_name
from sluicemq.host.files import HostFiles
from sluicemq.host.garbage import Collector, leave_old_ones
from sluicemq.host.log import HostLog
from sluicemq.host.loop import BrokerLoop
from sluicemq.host.memory import HostMemory, tune_allocator
from sluicemq.host.memory_disk import MemoryDisk, MemoryFiles
from sluicemq.host.net import Connection, HostNet
from sluicemq.host.rounds import Rounds
from sluicemq.host.service_manager import ServiceManager
from sluicemq.host.uring import WriteRing
from sluicemq.host.watchdog import Watchdog
from sluicemq.kernel.containment import objects_at, traceback_text
from sluicemq.kernel.world import World
from sluicemq.limits import TIGHT_RATIO
from sluicemq.node import Node, in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluicemq.cluster.membership import ClusterMembership
    from sluicemq.config import Config
    from sluicemq.host.companion import Companion
    from sluicemq.host.control_session import BeginCommand
    from sluicemq.kernel.world import Clock, Log
    from sluicemq.manage.task import Action
    from sluicemq.storage.message_index import MessageIndex

SHUTDOWN_SECONDS = 2.0
"""Seconds that clients have to answer connection.close when the broker stops, and then the nodes of
a cluster to agree on the consequences."""

HAND_OVER_SECONDS: Final = 2.0
"""Seconds that a stopping node of a cluster waits until others lead what it has led."""

CLOSE_SECONDS: Final = 5.0
"""Seconds for which the disk may finish nothing while the storage is being closed: longer than a
bad disk takes for a sync, shorter than service managers wait."""

SWITCH_SECONDS: Final = 0.0005
"""How long Python lets a busy thread go on while another one wants to (its default: 5 ms).

A group commit by a thread (with io_uring there are few: sync_strand.py) needs the interpreter to
begin and to say that it is done, and between write and fdatasync where these are two calls, as they
were when this was measured. Each time it waits that long for a busy event loop. Measured on two
cores under a flood of 1 KiB messages, for 64 KiB and fdatasync, from asking to knowing (p50, p99;
messages/s): 5 ms: 16 and 26 ms, 475 000; 1 ms: 6.4 and 12 ms, 436 000; 0.5 ms: 4.0 and 9.4 ms, 424
000; 0.1 ms: 3.9 and 9.2 ms, 418 000. What throughput it costs are the commits, of which there are
four times as many; below 0.5 ms nothing is gained. Writing in the loop and only syncing in the
thread saves one of the three: 4 ms at 5 ms, nothing at 0.5 ms, and the loop would stand still in a
slow write."""

CLOSE_SECONDS_MAX: Final = 40.0
"""The most seconds for closing the storage, disk busy or not."""

END_SECONDS: Final = 60.0
"""Seconds that the process has to end in order: shorter than service managers commonly wait (90
s)."""

LATE_EXIT_CODE: Final = 75
"""EX_TEMPFAIL: the process did not end in order within END_SECONDS. The next start is as after a
kill."""

BROKEN_EXIT_CODE: Final = 70
"""EX_SOFTWARE: a programming error came up, and going on could make it worse."""


REMOVED_EXIT_CODE: Final = 2
"""As for a refused start: this node was removed from its cluster."""


class BrokerHost:
    """One node on this machine, in the running event loop. `place` is its storage: a directory that
    it holds, or memory."""

    def __init__(
        self, config: Config, place: Path | MemoryFiles, accept_loss: bool = False
    ) -> None:
        secret = read_secret(config.cluster)
        self.loop = asyncio.get_running_loop()
        self.config = config
        self.stopped = asyncio.Event()
        """Set when it is time to end: a signal came, or something broke."""
        self.exit_code = 0
        self.log = self.make_log()
        room = shares(limit(), config.storage.file_handles_max, config.net.backlog)
        self.net = self.make_net(room.sockets)
        self.journal_writer = ""
        """Who writes the journal, for the log; "" when nobody does."""
        if config.tls.port is not None:
            from sluicemq.host.tls import TlsSettings  # noqa: PLC0415 (start-up time without TLS)

            self.net.tls = TlsSettings(config)
        self.disk = self.make_disk(place, room.handles)
        clock = self.make_clock()
        world = World(clock, HostDice(), self.disk, self.net, HostMemory(), self.log)
        index = partial(make_index, config, place, self.log)
        self.node = Node(world, config, index, accept_loss, secret)
        self.net.divides = self.node.broker.pacer is not None
        self.node.scheduler.now_ns = perf_counter_ns
        self.collector = Collector(self.is_memory_short)
        scheduler = self.node.scheduler
        self.rounds = Rounds(self.loop, scheduler, self.net, self.disk, self.collector)
        self.net.poller.looked = self.rounds.looked
        scheduler.wake = self.rounds.wake
        self.control: ControlServer
        self.port = 0
        """The port of AMQP; that of AMQP over TLS when there is no other."""
        self.urls = self.node.urls
        self.node.stop = self.stopped.set
        self.node.broken = self.broken
        self.node.removed = self.removed
        self.loop.set_exception_handler(self.unexpected)
        self.rounds.schedule()

    def make_log(self) -> Log:
        """Return the log that the node writes."""
        return HostLog(self.config.log)

    def make_disk(self, place: Path | MemoryFiles, handles_max: int) -> HostDisk | MemoryDisk:
        """Return the disk over `place`; at most `handles_max` files of a directory are open."""
        if isinstance(place, MemoryFiles):
            return MemoryDisk(self.loop, place, self.crashed)
        files = HostFiles(place, handles_max, partial(self.log.write, "warning"))
        ring = self.make_ring()
        return HostDisk(self.loop, files, self.config.storage.io_threads, self.crashed, ring)

    def make_ring(self) -> WriteRing | None:
        """Return the ring by which the system writes the journal; None when a thread is to write
        it."""
        self.journal_writer = "by a thread"
        if self.config.storage.journal_writer == "thread":
            return None
        try:
            ring = WriteRing()
        except OSError as error:
            self.journal_writer = f"by a thread, without io_uring ({errno_name(error)})"
            return None
        self.journal_writer = "by io_uring"
        return ring

    def make_net(self, sockets_max: int) -> HostNet:
        """Return the network, with room for `sockets_max` sockets."""
        return HostNet(self.loop, self.config.net, self.log, sockets_max)

    def make_clock(self) -> Clock:
        """Return the clock that the node reads."""
        return HostClock(self.loop)

    async def start(self) -> None:
        """Listen for `sluicemq ctl`, and for clients or, in a cluster, for the other nodes."""
        if self.node.membership is None:
            await self.listen_for_clients()
        else:
            for scheme, host, port in self.listeners():
                bound = self.net.reserve(host, port, tls=scheme == "amqps")
                self.port = self.port or bound
        begin = commands_of(self.node, self.commands)
        self.control = ControlServer(begin, self.port)
        await self.control.start()
        self.log.write("info", f"data directory {self.disk.place}")
        if self.journal_writer:
            self.log.write("info", f"the journal is written {self.journal_writer}")
        if self.node.membership is not None:
            self.answer_nodes(self.node.membership, begin)
            self.listen_for_nodes(self.node.membership)

    def answer_nodes(self, membership: ClusterMembership, begin: BeginCommand) -> None:
        """Let other nodes send commands for this one, and this one send commands to them."""
        from sluicemq.manage.node_post import (  # noqa: PLC0415 (start-up time of who is alone)
            NodePost,
        )

        node, world = self.node, self.node.world
        node.node_post = NodePost(node.scheduler, world.clock, world.log, membership.cluster, begin)

    def commands(self) -> Mapping[str, Action]:
        """Return the actions of the control socket, by command name."""
        return all_commands()

    def listeners(self) -> list[tuple[str, str, int]]:
        """Return scheme, host and port of each listener for clients. Raises Refused when there is
        none."""
        net, tls = self.config.net, self.config.tls
        found: list[tuple[str, str, int]] = []
        if net.tcp_listener != "none":
            found.append(("amqp", net.host, net.port))
        if tls.port is not None:
            found.append(("amqps", tls.host or net.host, tls.port))
        if not found:
            raise Refused("listeners.tcp = none: listeners.ssl.default must be set")
        return found

    async def listen_for_clients(self) -> None:
        """Load the configured definitions, then let clients connect."""
        if self.config.definitions.load is not None:
            from sluicemq.host.start_definitions import (  # noqa: PLC0415 (start-up time without)
                load_definitions,
            )

            await load_definitions(self.node, self.config.definitions.load)
        for listener in self.listeners():
            self.listen(*listener)
        self.node.listens()

    def listen_for_nodes(self, membership: ClusterMembership) -> None:
        """Let the other nodes connect, and connect to them. Raises Refused when that fails."""
        config = self.config.cluster
        own = config.own
        try:
            membership.cluster.listen(config.host or own.host, own.port)
        except Refused as error:
            raise Refused(f"cluster.port = {own.port}: {error}") from error
        membership.start()

    async def open(self) -> None:
        """In a cluster, let clients connect once this node is a member and has all definitions;
        returns early when it is time to end."""
        if self.node.membership is None:
            return
        is_open = asyncio.Event()
        self.node.when_open(is_open.set)
        waits = [asyncio.create_task(each.wait()) for each in (is_open, self.stopped)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if not self.stopped.is_set():
            await self.listen_for_clients()

    def is_memory_short(self) -> bool:
        """Tell whether the memory alarm is raised or near."""
        return self.node.broker.memory_pressure >= TIGHT_RATIO

    def listen(self, scheme: str, host: str, port: int) -> None:
        """Listen for clients at one address; port 0 lets the system choose. Raises Refused when
        that fails."""
        bound = self.net.listen(self.node, host, port, tls=scheme == "amqps")
        self.port = self.port or bound
        self.urls.append(f"{scheme}://{host}:{bound}")

    def reload(self, read: Callable[[], Config]) -> None:
        """Open the log's file again, because it may have been moved; read the configuration again
        and apply its changes to new connections."""
        from sluicemq.host.reload import merged, summary  # noqa: PLC0415 (start-up time)

        try:
            if isinstance(self.log, HostLog):
                self.log.reopen()
            config, changed, kept = merged(self.config, read())
            if self.net.tls is not None:
                self.net.tls.load(config)
        except (OSError, Refused) as error:
            text = f"cannot reload the configuration, nothing is changed: {error}"
            self.log.write("error", text)
            return
        self.config = config
        self.net.config = config.net
        self.node.reconfigure(config)
        self.log.write("info", summary(changed, kept, self.net.tls is not None))

    def crashed(self, error: BaseException) -> None:
        """End as if killed, because a job of the disk has crashed, and actors that depend on it
        would wait forever. Confirmed messages are on the disk."""
        self.log.write(
            "error", f"a disk job failed unexpectedly, stopping: {traceback_text(error)}"
        )
        self.broken()

    def broken(self) -> None:
        """End at once, as if killed, with an exit code that tells of a fault."""
        self.exit_code = BROKEN_EXIT_CODE
        self.stopped.set()

    def removed(self, sentence: str) -> None:
        """End at once, because the cluster no longer has this node."""
        self.log.write("error", f"{sentence}; exiting now")
        self.exit_code = REMOVED_EXIT_CODE
        self.stopped.set()

    def unexpected(self, _: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Handle an exception in a callback of the event loop. A connection's callback costs only
        that connection; a refusal of the system is logged; any other exception ends the process."""
        error = context.get("exception")
        what = context.get("message", "a callback has failed")
        if error is None or isinstance(error, OSError):
            self.log.write("warning", f"{what}: {error}" if error else what)
            return
        self.node.broker.counters.faults += 1
        self.log.write("error", f"a fault of the broker's own: {what}: {traceback_text(error)}")
        at_work = (context.get("protocol"), *reversed(objects_at(error)))
        connection = next((each for each in at_work if isinstance(each, Connection)), None)
        if connection is not None:
            connection.faulted()
        else:
            self.broken()

    async def stop(self) -> None:
        """Stop in order: accept no new clients, hand leadership to other nodes, tell the connected
        clients, close the remaining connections, then the storage. After a crash only the control
        socket is removed."""
        self.net.stop_listening()
        await self.control.stop()
        if self.exit_code:
            return
        self.node.hand_over()
        deadline = self.loop.time() + HAND_OVER_SECONDS
        while self.node.has_heirs and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        self.node.shut_down()
        deadline = self.loop.time() + SHUTDOWN_SECONDS
        while self.net.connections and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.net.connections.values()):
            connection.abort()
        await asyncio.sleep(0)
        if self.node.membership is not None:
            deadline = self.loop.time() + SHUTDOWN_SECONDS
            while not self.node.is_agreed and self.loop.time() < deadline:
                await asyncio.sleep(0.01)
            from sluicemq.cluster.cluster_port import STOPS  # noqa: PLC0415 (start-up time)

            self.node.membership.cluster.leave(STOPS)
        await self.close_storage()

    async def close_storage(self) -> None:
        """Once all clients are gone, have the node write what makes the next start a clean one, and
        end the disk's threads. On a full disk the next start is one as after a kill."""
        self.node.close_storage()
        deadline, succeeded = 0.0, -1
        latest = self.loop.time() + CLOSE_SECONDS_MAX
        while not (self.node.storage_closed or self.exit_code):
            if succeeded != self.disk.succeeded:
                succeeded = self.disk.succeeded
                deadline = self.loop.time() + CLOSE_SECONDS
            if self.loop.time() > min(deadline, latest):
                why = "the disk makes no progress"
                if self.loop.time() <= deadline:
                    why = f"it takes longer than {CLOSE_SECONDS_MAX:.0f} s"
                self.log.write("warning", f"gave up closing the storage: {why}")
                break
            await asyncio.sleep(0.005)
        await self.disk.stop()


def make_index(config: Config, place: Path | MemoryFiles, log: Log, kind: str) -> MessageIndex:
    """Make the message store's index of one kind, as configured. Raises Refused when it cannot be
    made."""
    if config.storage.msg_store_index == "lmdb":
        if isinstance(place, MemoryFiles):
            raise Refused("message_store.index = lmdb: needs storage.kind = disk")
        from sluicemq.host.lmdb_index import open_lmdb_index  # noqa: PLC0415 (few configure it)

        return open_lmdb_index(place, log, kind)
    return in_memory(kind)


async def run_until_signal(
    config: Config,
    place: Path | MemoryFiles,
    read: Callable[[], Config],
    accept_loss: bool = False,
    companion: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code. `companion` and `notes` are as in
    `serve`."""
    manager = ServiceManager(os.environ)
    try:
        if config.cluster.takes_part and not config.cluster.nodes and isinstance(place, Path):
            from sluicemq.host.joining import join_cluster  # noqa: PLC0415 (few need it)

            is_told_to_end = await join_cluster(config, place)
            if is_told_to_end:
                return 0
        host = BrokerHost(config, place, accept_loss)
    except DiskFailed as failure:
        advice = "; make space on that disk" if failure.is_full else ""
        text = f"data_dir {place}: the broker cannot start with it: {failure}{advice}"
        raise Refused(text) from failure
    except LossRefused as loss:
        raise LossRefused(f"data_dir {place}: {loss}") from None
    except Corrupt as error:
        raise Refused(f"data_dir {place}: the broker cannot start with it: {error}") from error
    await host.start()
    greet(host, notes)
    host.collector.begin(host.loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        host.loop.add_signal_handler(number, host.stopped.set)
    host.loop.add_signal_handler(signal.SIGHUP, host.reload, read)
    await host.open()
    beside: Companion | None = None
    assert isinstance(host.log, HostLog)
    watchdog = Watchdog(config.watchdog, host.loop, host.node.scheduler, host.log, manager)
    if not host.stopped.is_set():
        tell_where(host)
        print("ready", *host.urls, flush=True)
        manager.ready(f"clients connect to {' '.join(host.urls)}")
        if companion:
            from sluicemq.host.companion import Companion  # noqa: PLC0415 (start-up time without)

            beside = Companion([*companion, "--broker-port", str(host.port)], host.log)
    await host.stopped.wait()
    watchdog.stop()
    manager.stopping()
    end_in_time(host)
    if beside is not None:
        await beside.stop()
    await host.stop()
    return host.exit_code


def greet(host: BrokerHost, notes: Sequence[str]) -> None:
    """Log the version and process of the broker, and the notes on its configuration."""
    python = sys.version.partition(" ")[0]
    what = f"SluiceMQ {__version__} ({build_kind()}), Python {python}"
    host.log.write("info", f"{what}, process {os.getpid()}")
    for note in notes:
        host.log.write("warning", note)


def tell_where(host: BrokerHost) -> None:
    """Log where clients connect, and the commands that show the broker's state."""
    host.log.write("info", f"clients connect to {' and '.join(host.urls)}")
    look = f"sluicemq ctl status --port {host.port}, sluicemq top --port {host.port}"
    host.log.write("info", f"to look inside: {look}")


def end_in_time(host: BrokerHost) -> None:
    """End the process after END_SECONDS, even if it does not stop by itself."""

    def end() -> None:
        host.log.write("error", f"the broker did not stop within {END_SECONDS:.0f} s, exiting now")
        os._exit(host.exit_code or LATE_EXIT_CODE)

    timer = threading.Timer(END_SECONDS, end)
    timer.daemon = True
    timer.start()


def serve(
    config: Config,
    place: Path | MemoryFiles,
    read: Callable[[], Config],
    accept_loss: bool = False,
    companion: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> int:
    """Serve, and return the process's exit code: 0 after a signal. `place` is the data directory,
    which the caller holds, or memory; `read` reads the configuration again. With `accept_loss` the
    broker starts even if required files of the directory are missing. `companion` is the command of
    a process to keep running beside the broker, and gets the broker's port; empty: there is none.
    `notes` are sentences about the configuration, for the log.

    Modules that were imported before are never garbage; a caller may have disabled the garbage
    collector while it imported them.
    """
    tune_allocator()
    raise_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    leave_old_ones()
    gc.enable()
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        code = runner.run(run_until_signal(config, place, read, accept_loss, companion, notes))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # for one that comes while Python ends
    sys.stdout.flush()
    return code
