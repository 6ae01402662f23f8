"""A process that runs many publishers: gives each its turn, and handles the broker's answers.

All publishers have the same period and are spread over it evenly, so messages fall due in a fixed
round: slot n belongs to publisher n modulo their number. A publisher that was held up gets another
turn when its socket takes bytes or a confirm comes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from sluicemq.amqp.events import Acks, ContentMethod, MethodFrame
from sluicemq.amqp.frames import FRAME, body_frames
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from sluicemq.amqp.properties import BasicProperties, header_frame
from sluicemq.client.session import Opened, SessionEvent
from sluicemq.lab.load_connection import LoadConnection
from sluicemq.lab.messages import Settled, StepTotals, WorkerReport
from sluicemq.lab.plan import NS, LoadStep, RunPlan
from sluicemq.lab.publisher import Envelope, MeasuredPublisher
from sluicemq.lab.stamp import STAMP
from sluicemq.lab.verification import NACKED, PROMISED, PublishedReport
from sluicemq.lab.worker import Worker

SEND_BUFFER_NS: Final = 100_000_000
SEND_BUFFER_BYTES_MIN: Final = 4096
"""The buffer of a publisher's socket takes the messages due in this time: by default a kernel takes
some MB before it pushes back, and messages waiting there would count as written."""
BATCH_BYTES: Final = 131_072
"""The most bytes to encode before the socket is checked again, so that little is written but not
sent."""

PACE_NS: Final = 200_000
"""Publishers whose turns are fewer nanoseconds apart are served together."""

PERSISTENT: Final = 2


def make_envelope(channel: int, queue: str, body_bytes: int, frame_max: int) -> Envelope:
    """Return the constant bytes of a publish to `queue` around its stamp."""
    body = bytes(STAMP.size) + b"." * (body_bytes - STAMP.size)
    frames = b"".join(body_frames(channel, body, frame_max))
    stamp_at = FRAME.size
    head = (
        BasicPublish("", queue).frame(channel)
        + header_frame(channel, body_bytes, BasicProperties(delivery_mode=PERSISTENT))
        + frames[:stamp_at]
    )
    return Envelope(head, frames[stamp_at + STAMP.size :])


class PublisherConnection(LoadConnection):
    """The connection of one publisher."""

    __slots__ = (
        "_asked",
        "_batch_max",
        "_buffer_bytes",
        "_position",
        "_worker",
        "blocked_since_ns",
        "number",
        "publisher",
        "settled",
    )

    publisher: MeasuredPublisher

    def __init__(self, worker: PublisherWorker, position: int, number: int) -> None:
        self._worker = worker
        self._position = position
        self._batch_max = 1
        self._buffer_bytes = 0
        self._asked = False
        self.number = number
        self.blocked_since_ns: int | None = None
        self.settled = False
        addresses = worker.broker_addresses
        super().__init__(
            addresses[number % len(addresses)], worker.poller, f"lab publisher {number}"
        )

    def on_opened(self, opened: Opened) -> None:
        plan = self._worker.plan
        queue = self.number % plan.scenario.queues
        name = plan.queue_names[queue]
        envelope = make_envelope(self.CHANNEL, name, plan.body_bytes, opened.frame_max)
        phase_ns = self._position * plan.period_ns // self._worker.publishers
        self.publisher = MeasuredPublisher(
            self.number, queue, envelope, plan.period_ns, phase_ns, plan.confirms
        )
        buffer_bytes = max(SEND_BUFFER_BYTES_MIN, envelope.size * SEND_BUFFER_NS // plan.period_ns)
        self._buffer_bytes = buffer_bytes
        linux_doubles_it = buffer_bytes // 2
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, linux_doubles_it)
        self._batch_max = max(1, min(BATCH_BYTES, buffer_bytes // 3) // envelope.size)
        self.session.open_channel(self.CHANNEL)

    def on_event(self, event: SessionEvent, now_ns: int) -> None:
        now_ns -= self._worker.origin_ns
        self._worker.reach(now_ns)
        if isinstance(event, Acks):
            self.publisher.confirm_each(event.tags, now_ns)
        elif isinstance(event, MethodFrame):
            self._on_method(event.method, now_ns)
        elif isinstance(event, ContentMethod) and isinstance(event.method, BasicReturn):
            self._worker.returned += 1

    def _on_method(self, method: Method, now_ns: int) -> None:
        if isinstance(method, BasicAck):
            self.publisher.settle(method.delivery_tag, method.multiple, PROMISED, now_ns)
        elif isinstance(method, BasicNack):
            self.publisher.settle(method.delivery_tag, method.multiple, NACKED, now_ns)
        elif isinstance(method, ConnectionBlocked):
            self.blocked_since_ns = now_ns
        elif isinstance(method, ConnectionUnblocked):
            self._worker.unblocked_ns += self.blocked_ns(now_ns)
            self.blocked_since_ns = None
        elif isinstance(method, ChannelOpenOk) and self._worker.plan.confirms:
            self.session.send(self.CHANNEL, ConfirmSelect())
        elif isinstance(method, ChannelOpenOk | ConfirmSelectOk):
            self.is_ready = True
        elif isinstance(method, ChannelCloseOk):
            self.settled = True

    def on_input_end(self, now_ns: int) -> None:
        self.on_room()

    def on_room(self) -> None:
        if self._worker.is_loading:
            self.pump()

    def pump(self) -> None:
        """Write the messages that are due and allowed, as far as the socket has room for them."""
        publisher = self.publisher
        origin_ns = self._worker.origin_ns
        while not self.is_full:
            now_ns = time.monotonic_ns() - origin_ns
            self._worker.reach(now_ns)
            count = publisher.allowance(now_ns)
            if count <= 0:
                return
            self.transmit(publisher.write(min(count, self._batch_max), now_ns))
            if count > self._batch_max and self.bytes_in_socket() >= self._buffer_bytes:
                self.await_room()

    def settle(self) -> bool:
        """Tell, after the schedule, whether the broker has taken everything. Without confirms its
        answer to channel.close tells it."""
        if self._worker.plan.confirms:
            self.settled = not self.publisher.unconfirmed
        elif not self._asked and not self.unsent_bytes:
            self._asked = True
            self.session.send(self.CHANNEL, ChannelClose(200, "Goodbye"))
            self.flush()
        return self.settled

    def blocked_ns(self, now_ns: int) -> int:
        """Return for how many nanoseconds the connection has been blocked this time, 0 if it is
        not."""
        return 0 if self.blocked_since_ns is None else now_ns - self.blocked_since_ns


class PublisherWorker(Worker[PublisherConnection]):
    """Runs the publishers of one worker process."""

    role = "publisher"
    table = "published"

    def __init__(self, plan: RunPlan, index: int, pipe: Connection) -> None:
        super().__init__(plan, index, pipe)
        self._numbers = plan.clients_of(plan.scenario.publishers, index)
        self.publishers = len(self._numbers)
        self.is_loading = False
        self.returned = 0
        self.unblocked_ns = 0
        """The blocked time of connections that are not blocked any more."""
        self._coming = list(reversed(self.steps))
        self._step: LoadStep | None = None
        self._slot = 0
        self._is_settled = False
        self._step_totals: dict[int, StepTotals] = {}
        self._totals_before: dict[str, int] = {}

    def makers(self) -> Sequence[Callable[[], PublisherConnection]]:
        return [
            partial(PublisherConnection, self, position, number)
            for position, number in enumerate(self._numbers)
        ]

    def work(self, now_ns: int) -> int:
        """Serve the publishers whose turn has come."""
        if self._coming and now_ns >= self._coming[-1].start_ns:
            self._begin_step(self._coming.pop())
        step = self._step
        if step is None:
            return self._coming[-1].start_ns - now_ns if self._coming else NS
        if now_ns >= step.end_ns:
            self._serve_everyone()
            self.stop(step.end_ns)
            return NS
        publishers = self.publishers
        due, next_due_ns = due_slots(now_ns - step.start_ns, self.plan.period_ns, publishers)
        links = self.links
        for slot in range(max(self._slot, due - publishers), due):
            links[slot % publishers].pump()
        self._slot = due
        return max(step.start_ns + next_due_ns - now_ns, PACE_NS)

    def _serve_everyone(self) -> None:
        """Write the messages that fell due since the last look. This is called just before the end
        of a step, because they belong to that step."""
        for link in self.links:
            link.pump()

    def _begin_step(self, step: LoadStep) -> None:
        self._serve_everyone()
        limit = None if step.limit is None else step.limit.messages
        for link in self.links:
            link.publisher.begin_step(step.number, limit, step.start_ns, step.end_ns)
        self._sum_up_step()
        self._step = step
        self._slot = 0
        self.is_loading = True

    def stop(self, now_ns: int) -> None:
        """End the schedule, either at its end or because the user wants it."""
        self._coming.clear()
        if self._step is not None:
            for link in self.links:
                link.publisher.end_schedule(now_ns)
            self._sum_up_step()
        self._step = None
        self.is_loading = False

    def _sum_up_step(self) -> None:
        """Report the step that has just ended; the publishers themselves count over all steps."""
        if self._step is None:
            return
        publishers = [link.publisher for link in self.links]
        totals = StepTotals(
            sum(publisher.intended for publisher in publishers),
            sum(publisher.abandoned for publisher in publishers),
        )
        for earlier in self._step_totals.values():
            totals.intended -= earlier.intended
            totals.abandoned -= earlier.abandoned
        self._step_totals[self._step.number] = totals

    def tick(self, now_ns: int) -> None:
        """Once the schedule is over, report as soon as the broker has taken everything."""
        if self._step is not None or self._coming or self._is_settled:
            return
        if sum(link.settle() for link in self.links) == self.publishers:
            self._is_settled = True
            promised = (link.publisher.promised(True).count(PROMISED) for link in self.links)
            self.pipe.send(Settled(sum(promised)))

    def take_rows(self, link: PublisherConnection, everything: bool) -> None:
        link.publisher.take_rows(self.recorder, self.plan.sample_every, everything)

    def counts(self, end_ns: int) -> dict[str, int]:
        publishers = [link.publisher for link in self.links]
        blocked_ns = sum(link.blocked_ns(end_ns) for link in self.links)
        totals = {
            "intended": sum(publisher.intended_until(end_ns - 1) for publisher in publishers),
            "written": sum(publisher.written for publisher in publishers),
            "confirmed": sum(publisher.confirmed for publisher in publishers),
            "blocked_ns": self.unblocked_ns + blocked_ns,
        }
        before = self._totals_before
        self._totals_before = totals
        row = {name: total - before.get(name, 0) for name, total in totals.items()}
        row["unconfirmed"] = sum(publisher.unconfirmed for publisher in publishers)
        return row

    def report(self) -> WorkerReport:
        self.stop(time.monotonic_ns() - self.origin_ns)
        promises = {link.number: link.publisher.promised(link.settled) for link in self.links}
        return WorkerReport(
            published=PublishedReport(promises, self.plan.confirms, self.returned),
            steps=self._step_totals,
        )


def due_slots(elapsed_ns: int, period_ns: int, publishers: int) -> tuple[int, int]:
    """Return how many turns have come, and when the next one comes, both since the start of the
    step. Publisher i's turns are at i * period / publishers, and every period after that."""
    rounds, rest_ns = divmod(elapsed_ns, period_ns)
    turns = min(((rest_ns + 1) * publishers - 1) // period_ns + 1, publishers)
    due = rounds * publishers + turns
    next_rounds, position = divmod(due, publishers)
    return due, next_rounds * period_ns + position * period_ns // publishers
