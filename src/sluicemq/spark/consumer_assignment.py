"""Assigns the queues of a query to groups of consumers, in this process or others.

    one consumer                in the planner's own process
    gather = driver             processes beside the planner, one a core at most
    gather = executors          a process on each executor that a task of the query has run on, of
                                which `gatherers` have consumers; the others stand by

A consumer belongs to its process and dies with it. Its queue is then given to another process, or
to a new one, as a consumer of another name: a name stands for one life of one consumer, so that a
position in an offset never changes its meaning.

Queues may come and go while a query runs (`discovery.py`): a new one goes to the group with the
fewest, and the consumers of a deleted one are dropped once none of their messages is
unacknowledged.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.consumer_groups import ConsumerGroup, PlannedConsumer
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.gatherer_start import GathererCall, start_beside
from sluicemq.spark.options import Options
from sluicemq.spark.planner_link import LOST_S, PlannerLink
from sluicemq.spark.remote_groups import ConsumerView, RemoteGroup
from sluicemq.spark.transfer import ChunkServer, Endpoint, Peer

Group = ConsumerGroup | RemoteGroup
AnyConsumer = ConsumerThread | ConsumerView

DEATH_S: Final = 2.0
"""Seconds until the planner learns of the end of a process, if its machine reports it."""

STOP_S: Final = 5.0
STARTS_MAX: Final = 5
"""The most processes in a row that may end before they report; and the most calls in a row that no
process follows."""


class ConsumerAssignment:
    """Decides which processes gather for a query, and which queues each of them consumes. The
    planner's thread may use it; the threads of the chunk server call `answer`."""

    def __init__(
        self,
        session: str,
        options: Options,
        queues: Sequence[str],
        news: threading.Condition,
        server: ChunkServer,
    ) -> None:
        self.groups: list[Group] = []
        self._options = options
        self._queues = queues
        self._news = news
        self._server = server
        self._call = GathererCall(session, options, server.endpoint)
        self._arrived: list[RemoteGroup] = []
        """Processes on executors without consumers: they have just come, or stand by."""
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        """The child processes, by the port that was given to them, or by a negative number."""
        self._calls = 0
        self._is_open = False
        self.consumer_bytes = -(-options.max_bytes_per_batch // max(len(self._slots()), 1))
        """Octets at which each consumer stops reading."""
        server.answer = self.answer

    @property
    def consumers(self) -> list[AnyConsumer]:
        """The consumers of all groups, in the order of the groups."""
        return [consumer for group in self.groups for consumer in group.consumers]

    @property
    def is_on_executors(self) -> bool:
        return self._options.gather == "executors"

    @property
    def call(self) -> GathererCall | None:
        """The data that a task needs to start a gathering process on its executor; None when
        executors do not gather."""
        return self._call if self.is_on_executors else None

    def open(self) -> None:
        """Start the consumers on the driver's side, unless that was done before. When executors
        gather, they are started by tasks instead."""
        if self._is_open:
            return
        self._is_open = True
        if self.is_on_executors:
            return
        if self._processes() == 1:
            group = ConsumerGroup(self._options, self._news, self._server)
            group.open(self._slots(), self.consumer_bytes)
            self.groups.append(group)
        else:
            self._start(self._processes())

    def grow(self) -> None:
        """Give consumers to queues that are new. When executors gather, `tend` does that
        instead."""
        if not self._is_open or self.is_on_executors:
            return
        self._start(self._processes() - len(self.groups))
        self._assign()

    def drop(self, consumers: Collection[str]) -> None:
        """Drop the named consumers, whose queues are deleted and of which no message is
        unacknowledged."""
        for group in self.groups if consumers else ():
            group.drop(consumers)

    def tend(self) -> list[ConsumerView]:
        """Make sure that each queue has its consumers, in new processes if some were lost. Returns
        the consumers of the groups that were lost since the last call."""
        lost = [each for each in self.groups if isinstance(each, RemoteGroup) and each.is_lost]
        self.groups = [group for group in self.groups if group not in lost]
        gone = [consumer for group in lost for consumer in group.consumers]
        if not self.is_on_executors:
            if lost:
                self._start(len(lost))
            return gone
        with self._news:
            there = [group for group in self._arrived if not group.is_lost]
            room = max(0, self._options.gatherers - len(self.groups))
            self.groups += there[:room]
            self._arrived = there[room:]
        if self.groups:
            self._calls = 0
            self._assign()
        return gone

    def call_up(self) -> int:
        """Return how many tasks are to start processes on executors, because there are none. Raises
        `AmqpError` when no process has come after STARTS_MAX calls in a row."""
        self._calls += 1
        if self._calls > STARTS_MAX:
            raise AmqpError(
                f"gather = executors: {self._calls - 1} times no executor followed the call to"
                " gather; see their logs (stderr)"
            )
        return self._options.gatherers

    @contextmanager
    def gathering_somewhere(self) -> Iterator[None]:
        """Have consumers in this process during the block if no executor gathers yet. Their
        messages go back to the queues at its end."""
        if self.groups:
            yield
            return
        group = ConsumerGroup(self._options, self._news, self._server)
        group.open(self._slots(), self.consumer_bytes)
        self.groups.append(group)
        try:
            yield
        finally:
            self.groups.remove(group)
            group.stop()

    def keep_alive(self) -> None:
        """Renew the leases of all gathering processes; any thread may call it."""
        for group in self.groups + self._arrived:
            group.keep_alive()

    def stop(self) -> None:
        """Have all groups write their acknowledgements and close their connections, and wait for
        their processes to end."""
        groups, self.groups = [*self.groups, *self._arrived], []
        threads = [threading.Thread(target=group.stop) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for child in self._children.values():
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children = {}

    def abandon(self) -> None:
        """Close the sockets of all groups at once without writing anything; any thread may call
        it."""
        for group in self.groups + self._arrived:
            group.abandon()

    def answer(self, asked: dict[str, Any], peer: Peer) -> None:
        """Answer a request that is not for chunks: a process that joins, or a task that asks
        whether processes have come or one is lost."""
        if "join" in asked:
            self._welcome(Endpoint(*asked["join"]), PlannerLink(peer))
            return
        if "is_lost" in asked:
            found = self._is_lost(asked["is_lost"])
        else:
            found = self._are_there(asked["are_there"], asked["within_s"])
        peer.sendall(json.dumps(found).encode() + b"\n")

    def _welcome(self, endpoint: Endpoint, link: PlannerLink) -> None:
        """Add the group of a process on an executor; this thread listens to it while it lives."""
        group = RemoteGroup(link, endpoint, self._news)
        with self._news:
            self._arrived.append(group)
            self._news.notify_all()
        group.listen()

    def _is_lost(self, token: str) -> bool:
        """Return whether the process that had this token is lost. A task may notice its end first,
        so it counts as alive only if it reports something DEATH_S or more after the question. The
        end of a whole machine is noticed only when the lease is over."""
        asked_at = time.monotonic()
        with self._news:
            while there := [g for g in self.groups if g.endpoint.token == token and not g.is_lost]:
                if any(group.heard_at > asked_at + DEATH_S for group in there):
                    return False
                if not self._news.wait(asked_at + LOST_S - time.monotonic()):
                    return False
        return True

    def _are_there(self, count: int, within_s: float) -> bool:
        """Wait until that many processes have come; return whether they have."""
        deadline = time.monotonic() + within_s
        with self._news:
            while len(self.groups) + len(self._arrived) < count:
                if not self._news.wait(deadline - time.monotonic()):
                    return False
        return True

    def _slots(self) -> list[PlannedConsumer]:
        """Return the least set of consumers that the query has."""
        return [
            PlannedConsumer(queue, f"{queue}#{number + 1}" if number else queue)
            for queue in self._queues
            for number in range(self._options.consumers_per_queue)
        ]

    def _processes(self) -> int:
        """Return how many processes there are to be with gather = driver."""
        return min(len(self._slots()), os.cpu_count() or 1)

    def _start(self, processes: int) -> None:
        """Start processes beside this one, and give them the missing consumers."""
        if processes <= 0:
            return
        for _ in range(STARTS_MAX):
            started = [self._start_one() for _ in range(processes)]
            joined = [group for each in started if (group := self._joined(each)) is not None]
            self.groups += joined
            processes -= len(joined)
            if not processes:
                self._assign()
                return
        raise AmqpError("a process that gathers ends as soon as it is started (see the log)")

    def _start_one(self) -> PlannerLink:
        options = self._options
        host, bind, port = options.transfer_host, options.transfer_bind, options.transfer_port
        port = port and self._free_port(port)
        child, link = start_beside(replace(self._call, host=host, bind=bind, port=port))
        self._children = {p: each for p, each in self._children.items() if each.poll() is None}
        self._children[port or -child.pid] = child
        return link

    def _free_port(self, port: int) -> int:
        """Return the first port after that one that no process of ours has."""
        return next(p for p in range(port + 1, 65_536) if p not in self._children)

    def _joined(self, link: PlannerLink) -> RemoteGroup | None:
        said = link.receive()
        if said is None:
            link.close()
            return None
        group = RemoteGroup(link, Endpoint(*said["join"]), self._news)
        threading.Thread(target=group.listen, name="amqp gatherer", daemon=True).start()
        return group

    def _assign(self) -> None:
        """Give missing consumers to the groups with the fewest; an executor that has none then gets
        consumers of the queues with the fewest."""
        have = Counter(consumer.queue for consumer in self.consumers if not consumer.is_gone)
        new: list[list[str]] = [[] for _ in self.groups]
        load = [sum(not consumer.is_gone for consumer in group.consumers) for group in self.groups]

        def give(whom: int, queue: str) -> None:
            new[whom].append(queue)
            load[whom] += 1
            have[queue] += 1

        slots = Counter(planned.queue for planned in self._slots())
        for queue in (slots - have).elements():
            give(load.index(min(load)), queue)
        share = -(-slots.total() // len(self.groups)) if self.is_on_executors else 0
        for whom, consumers in enumerate(load):
            for _ in range(0 if consumers else share):
                give(whom, min(slots, key=lambda queue: have[queue]))
        if not any(new):
            return
        self.consumer_bytes = -(-self._options.max_bytes_per_batch // sum(load))
        for group, queues in zip(self.groups, new, strict=True):
            group.open(
                [PlannedConsumer(queue, new_name(queue)) for queue in queues], self.consumer_bytes
            )


def new_name(queue: str) -> str:
    """Return a new, unique name for a consumer: a name stands for one life of a consumer."""
    return f"{queue}@{uuid.uuid4().hex[:8]}"
