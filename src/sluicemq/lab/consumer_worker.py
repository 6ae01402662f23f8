"""A process that runs many consumers: acknowledges, checks and records their deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from multiprocessing.connection import Connection
from typing import Final

from sluicemq.amqp.events import Deliveries, MethodFrame
from sluicemq.amqp.frames import FRAME, frame_end
from sluicemq.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelOpenOk,
)
from sluicemq.client.session import BrokerError, Opened, SessionEvent
from sluicemq.lab.consumer import MeasuredConsumer
from sluicemq.lab.load_connection import LoadConnection
from sluicemq.lab.messages import Arrived, WorkerReport
from sluicemq.lab.plan import NS, RunPlan
from sluicemq.lab.verification import Inspector
from sluicemq.lab.worker import Worker

LIVE_SAMPLES: Final = 500
"""Latencies that a worker hands to the live view each second."""


class ConsumerConnection(LoadConnection):
    """The connection of one consumer."""

    __slots__ = ("_contents", "_offsets", "_redelivered", "_worker", "consumer", "number")

    def __init__(self, worker: ConsumerWorker, number: int) -> None:
        plan = worker.plan
        self._worker = worker
        self.number = number
        self.consumer = MeasuredConsumer(
            number,
            number % plan.scenario.queues,
            plan.ack_interval,
            plan.sample_every,
            worker.inspector,
        )
        # The deliveries of one read of the socket.
        self._contents: list[bytes] = []
        self._offsets: list[int] = []
        self._redelivered: list[int] = []
        addresses = worker.broker_addresses
        super().__init__(
            addresses[number % len(addresses)], worker.poller, f"lab consumer {number}"
        )

    def on_opened(self, opened: Opened) -> None:
        self.session.open_channel(self.CHANNEL)

    def on_event(self, event: SessionEvent, now_ns: int) -> None:
        if isinstance(event, Deliveries):
            contents = event.contents
            self._contents += contents
            self._offsets += stamp_offsets(contents)
            self._redelivered += repeat(int(event.redelivered), len(contents))
        elif isinstance(event, MethodFrame):
            self._on_method(event)

    def _on_method(self, event: MethodFrame) -> None:
        plan = self._worker.plan
        if isinstance(event.method, ChannelOpenOk):
            self.session.send(self.CHANNEL, BasicQos(prefetch_count=plan.prefetch))
        elif isinstance(event.method, BasicQosOk):
            queue = plan.queue_names[self.consumer.queue]
            consume = BasicConsume(queue=queue, no_ack=not plan.ack_interval)
            self.session.send(self.CHANNEL, consume)
        elif isinstance(event.method, BasicConsumeOk):
            self.is_ready = True
        elif isinstance(event.method, BasicCancel):
            raise BrokerError(f"the broker cancelled consumer {self.number}: its queue is gone")

    def on_input_end(self, now_ns: int) -> None:
        """Write the acks that are due, before the deliveries are checked."""
        contents = self._contents
        if not contents:
            return
        worker = self._worker
        now_ns -= worker.origin_ns
        worker.reach(now_ns)
        consumer = self.consumer
        acks = consumer.acks_due(self.CHANNEL, len(contents))
        if acks:
            self.transmit(acks)
        consumer.record(contents, self._offsets, self._redelivered, now_ns)
        acked_ns = time.monotonic_ns() - worker.origin_ns
        worker.reach(acked_ns)
        consumer.record_acks(acked_ns)
        contents.clear()
        self._offsets.clear()
        self._redelivered.clear()

    def close(self) -> None:
        acks = self.consumer.acks_left(self.CHANNEL)
        if acks:
            self.transmit(acks)
        self.consumer.record_acks(time.monotonic_ns() - self._worker.origin_ns)
        super().close()


class ConsumerWorker(Worker[ConsumerConnection]):
    """Runs the consumers of one worker process."""

    role = "consumer"
    table = "delivered"

    def __init__(self, plan: RunPlan, index: int, pipe: Connection) -> None:
        super().__init__(plan, index, pipe)
        publishers = plan.clients_of(plan.scenario.publishers, index)
        self._numbers = plan.clients_of(plan.scenario.consumers, index)
        self.inspector = Inspector(publishers, plan.seqs_max)
        self._delivered_before = 0
        self._acked_before = 0
        self._arrived_reported = -1
        self._draining = False

    def makers(self) -> Sequence[Callable[[], ConsumerConnection]]:
        return [partial(ConsumerConnection, self, number) for number in self._numbers]

    def work(self, now_ns: int) -> int:
        """Do nothing, because consumers have no schedule."""
        return NS

    def tick(self, now_ns: int) -> None:
        """While draining, tell the conductor how many messages have arrived."""
        arrived = self.inspector.arrived
        draining = self._draining or now_ns >= self.steps[-1].end_ns
        if draining and arrived != self._arrived_reported:
            self.pipe.send(Arrived(arrived))
            self._arrived_reported = arrived

    def stop(self, now_ns: int) -> None:
        self._draining = True

    def take_rows(self, link: ConsumerConnection, everything: bool) -> None:
        link.consumer.take_rows(self.recorder, everything)

    def counts(self, end_ns: int) -> dict[str, int]:
        delivered = self.inspector.delivered
        unacked = sum(link.consumer.unacked for link in self.links)
        acked = sum(link.consumer.acked for link in self.links)
        row = {
            "delivered": delivered - self._delivered_before,
            "acked": acked - self._acked_before,
            "unacked": unacked,
        }
        self._delivered_before = delivered
        self._acked_before = acked
        return row

    def sample_latencies(self, since_ns: int) -> list[int]:
        samples_max = max(1, LIVE_SAMPLES // max(1, len(self.links)))
        return [
            latency
            for link in self.links
            for latency in link.consumer.latencies_ns(since_ns, samples_max)
        ]

    def report(self) -> WorkerReport:
        return WorkerReport(delivered=self.inspector.report())


def stamp_offsets(contents: Sequence[bytes]) -> Sequence[int]:
    """Return where the body of each content begins. All bodies of a run have the same size, so
    header frames of equally long contents are equally long too."""
    length = len(contents[0])
    if all(map(length.__eq__, map(len, contents))):
        return [frame_end(contents[0], 0) + FRAME.size] * len(contents)
    return [frame_end(content, 0) + FRAME.size for content in contents]
