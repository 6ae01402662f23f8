"""Deliveries, from assignment by the state to the channels: windows, bodies, reads of the log.

Messages assigned to a consumer wait in the outbox of its channel until the consumer's window has
room and their bodies are in RAM. basic.get and dead letters wait for bodies only.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.delivery_counts import counted, with_count
from sluicemq.chain.queue.quorum.channel_ends import DeliveredRun, DueDelivery
from sluicemq.chain.queue.quorum.entry_bodies import BodyLimits
from sluicemq.limits import (
    QUORUM_BODIES_BYTES,
    QUORUM_READ_BYTES,
    QUORUM_READ_ENTRIES,
    RETRY_FULL_MS,
)
from sluicemq.model.traits import MessageTraits
from sluicemq.queues.commands import ACK
from sluicemq.queues.consumers import cost_of
from sluicemq.queues.effects import DeadLetter, Deliver, Got
from sluicemq.queues.quorum.commands import SettleDelivered
from sluicemq.queues.quorum.dead_letter_queue import NO_ID
from sluicemq.storage.queue_index import READ_TRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd
    from sluicemq.chain.queue.quorum.entry_bodies import EntryBodies
    from sluicemq.chain.queue.quorum.quorum_port import QuorumPort
    from sluicemq.flow.credit import Outflow
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.quorum.effects import DeadPart, DeliveredPart, MessageGot
    from sluicemq.storage.raft.reading import RaftEntriesRead

DELIVERY_WORK: Final = 8
MESSAGES_A_UNIT: Final = 8
"""A delivery costs DELIVERY_WORK units of work, and one more for so many messages in it."""


class CutPart:
    """Those of the assigned messages that are delivered as one batch, in order."""

    __slots__ = ("contents", "same_size", "traits")

    def __init__(self, contents: list[bytes], traits: MessageTraits, same_size: bool) -> None:
        self.contents = contents
        self.traits = traits
        self.same_size = same_size

    def is_like(self, other: CutPart) -> bool:
        """Tell whether the messages of both may be delivered as one batch."""
        return (
            self.same_size
            and other.same_size
            and self.traits == other.traits
            and len(self.contents[0]) == len(other.contents[0])
        )


class QuorumDeliveries:
    """The deliveries of one quorum queue."""

    def __init__(self, shell: QuorumPort, bodies: EntryBodies) -> None:
        self.shell = shell
        self.bodies = bodies
        self.next_run = 1
        self.moving: dict[ChannelEnd, None] = {}
        """Channels that may have room for deliveries in their outboxes."""
        self.of_window: dict[Outflow, ChannelEnd] = {}
        self.got: deque[tuple[ChannelEnd, MessageGot]] = deque()
        """Answers to basic.get that wait for bodies."""
        self.dead: deque[DeadPart] = deque()
        """Dead letters that wait for bodies."""
        self.is_reading = False
        """A job reads, or will after a pause for the disk."""
        self.is_on_its_way = False
        """Entries that are not in RAM come with a leader's snapshot that is not durable yet."""
        self.holds_back = False
        """Bodies that the state has released stay in RAM: they may be in no segment yet, so that a
        waiting delivery could not read them."""
        self.tries = 0
        """How often in a row the disk has failed to read."""
        self.looked_upto = 0
        """Entries up to here were checked for being in RAM without need."""
        self.bodies_bytes_max = QUORUM_BODIES_BYTES
        """The most bytes of readable bodies in RAM, unless the queue's settings allow more;
        `read_bytes_max` bounds one read."""
        self.read_bytes_max = QUORUM_READ_BYTES

    @property
    def has_pinned(self) -> bool:
        """Tell whether a delivery or dead letter waits for bodies that the state has already
        released."""
        return bool(self.pinned())

    def pinned(self) -> list[int]:
        """Return the entries that a delivery or dead letter waits for and the state has
        released.
        """
        found = [part.entry for part in self.dead if part.first_id == NO_ID]
        parts = [got.part for _, got in self.got if got.part is not None]
        return found + [part.entry for part in parts if part.first_id == NO_ID]

    @property
    def has_work(self) -> bool:
        """Tell whether something may be sent, or has to be read."""
        return bool(self.moving or self.got or self.dead or self.bodies.wanted)

    def dealt(self, end: ChannelEnd, consumer: Consumer, parts: list[DeliveredPart]) -> None:
        """Queue messages that the state has assigned to a consumer."""
        outbox = end.outbox
        for part in parts:
            outbox.append(DueDelivery(consumer, part))
        self.of_window[consumer.window] = end
        self.moving[end] = None

    def window_opened(self, window: Outflow) -> None:
        """Let a channel have its waiting messages, because it has sent some of its deliveries."""
        end = self.of_window.get(window)
        if end is not None and end.outbox:
            self.moving[end] = None

    def serve(self) -> None:
        """Send what can be sent, as far as the turn's work goes, and at least something: incoming
        messages may use up all of it for long."""
        scheduler = self.shell.scheduler
        if self.got:
            self.answer_gets()
        if self.dead:
            self.pass_dead_on()
        while self.moving:
            end = next(iter(self.moving))
            del self.moving[end]
            if self.send_some(end):
                self.moving[end] = None
            if self.moving and scheduler.work <= 0:
                self.shell.schedule()
                break
        if self.bodies.wanted and not self.is_reading and not self.is_on_its_way:
            self.read()

    def send_some(self, end: ChannelEnd) -> bool:
        """Send the first part in an outbox, and those behind it that are like it, as far as the
        window has room. Returns True if more may fit."""
        if not end.outbox:  # its consumer was cancelled meanwhile
            return False
        due = end.outbox[0]
        consumer, part = due.consumer, due.part
        window = consumer.window
        if window.is_shut or window.waits():
            return False
        cut = self.cut(part)
        if cut is None:
            return False
        count = room_for(cut, window.credit)
        whole = len(part.places)
        end.outbox.popleft()
        if count < whole:
            end.outbox.appendleft(DueDelivery(consumer, part.behind(count)))
        elif end.outbox and not part.returns:
            count = self.join_more(end, consumer, part, cut)
        self.deliver(end, consumer, part, cut, count)
        return bool(end.outbox)

    def join_more(
        self, end: ChannelEnd, consumer: Consumer, part: DeliveredPart, cut: CutPart
    ) -> int:
        """Add to `cut`, which is all of `part`, the next messages of the same consumer that are
        like it, as far as the window has room for all of each part. Of an entry a consumer mostly
        has some messages of each publisher. Returns how many there are now."""
        outbox = end.outbox
        count = len(cut.contents)
        first = part.first_id
        room = consumer.window.credit // cost_of(len(cut.contents[0])) if cut.same_size else 0
        while outbox:
            due = outbox[0]
            more = due.part
            size = len(more.places)
            if (
                due.consumer is not consumer
                or more.first_id != first + count
                or more.returns
                or more.redelivered != part.redelivered
                or count + size > room
            ):
                break
            next_cut = self.cut(more)
            if next_cut is None or len(next_cut.contents) != size or not cut.is_like(next_cut):
                break
            outbox.popleft()
            cut.contents += next_cut.contents
            count += size
        return count

    def deliver(
        self, end: ChannelEnd, consumer: Consumer, part: DeliveredPart, cut: CutPart, count: int
    ) -> None:
        """Send the first `count` messages of a part."""
        contents = cut.contents if count == len(cut.contents) else cut.contents[:count]
        cost = cost_of_all(contents, cut.same_size)
        consumer.window.spend(cost)
        if part.returns:
            contents = counted(contents, cut.traits.envelope, [part.returns] * count)
        run = 0
        key = end.key(consumer.tag)
        if consumer.no_ack:
            ids = ((part.first_id, part.first_id + count),)
            self.shell.submit_settle(SettleDelivered(key, ids, ACK))
        else:
            run = self.new_run()
            end.runs[run] = DeliveredRun(key, part.first_id, count)
            consumer.prefetch.unacked += count
        self.shell.delivered += count
        self.shell.spend(DELIVERY_WORK + count // MESSAGES_A_UNIT)
        same_size = cut.same_size and not part.returns
        traits = cut.traits
        deliver = Deliver(consumer, run, contents, traits, part.redelivered, cost, None, same_size)
        end.actor.post(deliver)

    def new_run(self) -> int:
        """Return a run number that was not used before."""
        run = self.next_run
        self.next_run += 1
        return run

    # -- bodies

    def cut(self, part: DeliveredPart | DeadPart) -> CutPart | None:
        """Return the first messages of a part, those that are in one batch of the entry, or in
        several that are alike; None if they have to be read first."""
        found = self.bodies.find(part.entry)
        if found is None:
            return None
        place: int = part.places.start
        step: int = part.places.step
        left = len(part.places)
        cut: CutPart | None = None
        for each in found:
            if left and each.first <= place < each.end:
                count = min(left, -(-(each.end - place) // step))
                more = CutPart(each.cut(place, step, count), each.traits, each.same_size)
                if cut is None:
                    cut = more
                elif cut.is_like(more):
                    cut.contents += more.contents
                else:
                    break
                place += count * step
                left -= count
        assert cut is not None, f"entry {part.entry} has no message at place {place}"
        return cut

    def read(self) -> None:
        """Read the entries that are wanted, and some that will be wanted next."""
        shell = self.shell
        indexes = [*self.ahead()]
        job = shell.store.raft.reading(shell.id, indexes)
        assert job is not None, "what is not in RAM is in a segment"
        self.is_reading = True
        shell.services.world.disk.submit(job, shell, shell.read_strand)

    def ahead(self) -> Iterator[int]:
        """Give the indexes of entries to be read, ascending: wanted ones, and those behind them
        that will be delivered next."""
        found = dict.fromkeys(self.bodies.wanted)
        first = min(found)
        messages = self.shell.fifo.messages
        message_size = (messages.bytes + messages.out_bytes) // (messages.count + messages.out or 1)
        size = 0
        for end in [*self.of_window.values()]:
            for due in end.outbox:
                if size > self.read_bytes_max or len(found) >= QUORUM_READ_ENTRIES:
                    break
                if due.part.entry not in found:
                    found[due.part.entry] = None
                    size += len(due.part.places) * message_size
        for batch in messages.fresh:
            size += batch.count * batch.size
            if size > self.read_bytes_max or len(found) >= QUORUM_READ_ENTRIES:
                break
            found[batch.index] = None
        held = self.bodies
        return iter(sorted(index for index in found if index >= first and not held.has(index)))

    def was_read(self, job: RaftEntriesRead) -> None:
        """Take in entries that were read. Entries that were not found are requested again; after a
        failure of the disk the read is repeated after a while, READ_TRIES times. Damage is a fault
        of the queue."""
        self.bodies.were_read(job.found, self.read_bytes_max)
        self.is_reading = job.has_failed and self.tries < READ_TRIES
        if self.is_reading:
            self.tries += 1
            clock = self.shell.services.world.clock
            clock.call_after(RETRY_FULL_MS, self.shell, ReadAgain())
        elif job.problem and not job.is_stale:
            raise DamagedLog(job.problem)
        else:
            self.tries = 0
        for end in self.of_window.values():
            if end.outbox:
                self.moving[end] = None

    def release(self, upto: int) -> None:
        """Release bodies up to an index, because the state has; if something waits for some of
        these, they and all behind the first of them stay."""
        kept = [index for index in self.pinned() if index <= upto and self.bodies.keeps(index)]
        self.holds_back = bool(kept)
        self.bodies.release(min(kept) - 1 if kept else upto)

    def shrink(self) -> None:
        """Drop bodies that the disk has, as far as the queue has too many in RAM."""
        settings, bodies = self.shell.settings, self.bodies
        if not bodies.stored:
            return
        bytes_max = settings.max_in_memory_bytes
        ram_max = max(self.bodies_bytes_max, bytes_max or 0)
        limits = BodyLimits(ram_max, settings.max_in_memory_length, bytes_max)
        if bodies.exceed(limits):
            if self.looked_upto < bodies.on_disk_upto:
                self.looked_upto = bodies.on_disk_upto
                self.forget_dead()
            bodies.shrink(limits)

    def forget_dead(self) -> None:
        """Drop entries from RAM of which nothing is needed, because there is too much."""
        messages = self.shell.fifo.messages
        before = messages.fresh[0].index if messages.fresh else self.looked_upto + 1
        self.bodies.forget_dead(before, {batch.index for batch in messages.taken})

    # -- waiting for bodies

    def answer_gets(self) -> None:
        """Answer each basic.get whose body is in RAM."""
        for _ in range(len(self.got)):
            end, got = self.got.popleft()
            part = got.part
            assert part is not None
            cut = self.cut(part)
            if cut is None:
                self.got.append((end, got))
                continue
            run, link = 0, None
            content = with_count(cut.contents[0], cut.traits.envelope, part.returns)
            if part.first_id >= 0:
                run, link = self.new_run(), end.link
                end.runs[run] = DeliveredRun(end.key(""), part.first_id, 1)
            self.shell.delivered += 1
            end.actor.post(
                Got(
                    end.actor,
                    content,
                    run,
                    cut.traits,
                    part.redelivered,
                    got.ready,
                    link=link,
                )
            )

    def pass_dead_on(self) -> None:
        """Hand over the dead letters whose bodies are in RAM."""
        due, self.dead = self.dead, deque()
        while due:
            part = due.popleft()
            cut = self.cut(part)
            if cut is None:
                self.dead.append(part)
                continue
            count = len(cut.contents)
            if count < len(part.places):
                first_id = part.first_id if part.first_id < 0 else part.first_id + count
                rest = part._replace(first_id=first_id, places=part.places[count:])
                due.appendleft(rest)
            run = 0
            if part.first_id >= 0:
                run = self.new_run()
                worker = self.shell.dead_letter_worker
                worker.runs[run] = DeliveredRun(worker.key(""), part.first_id, count)
            letter = DeadLetter(run, 0, cut.contents, cut.traits, part.reason)
            self.shell.dead_letter(letter)

    def forget_dead_letters(self) -> None:
        """Forget dead letters that stay in the queue until they have arrived: another node handles
        them."""
        self.dead = deque(part for part in self.dead if part.first_id == NO_ID)
        self.shell.dead_letter_worker.runs.clear()

    # -- ends

    def forget(self, end: ChannelEnd) -> bool:
        """Forget a channel that is gone. Returns whether its basic.get was unanswered."""
        self.moving.pop(end, None)
        self.of_window = {w: each for w, each in self.of_window.items() if each is not end}
        before = len(self.got)
        self.got = deque(each for each in self.got if each[0] is not end)
        return len(self.got) < before

    def give_up_gets(self) -> list[ChannelEnd]:
        """Drop all unsent answers to basic.get. Returns the channels whose basic.get stays
        unanswered."""
        waiting, self.got = self.got, deque()
        return [end for end, _ in waiting]

    def overtaken(self) -> list[ChannelEnd]:
        """Drop what waits for bodies that the state has released, because a leader's snapshot has
        none of them; dead letters whose bodies are in RAM are handed over first. Returns the
        channels whose basic.get stays unanswered, for messages that count as acknowledged."""
        self.forget_dead_letters()
        self.pass_dead_on()
        self.dead.clear()
        waiting, self.got = self.got, deque()
        unanswered: list[ChannelEnd] = []
        for end, got in waiting:
            if got.part is not None and got.part.first_id == NO_ID:
                unanswered.append(end)
            else:
                self.got.append((end, got))
        return unanswered


class ReadAgain:
    """A timer's message: a read that the disk has failed may be tried again."""

    __slots__ = ()


class DamagedLog(Exception):
    """Messages that a queue has to deliver cannot be read; the text says what is damaged."""


def room_for(cut: CutPart, credit: int) -> int:
    """Return how many of the messages fit into a window with that credit; at least one."""
    contents = cut.contents
    if cut.same_size:
        return min(len(contents), max(1, credit // cost_of(len(contents[0]))))
    count = 0
    for content in contents:
        credit -= cost_of(len(content))
        if credit < 0:
            break
        count += 1
    return max(1, count)


def cost_of_all(contents: list[bytes], same_size: bool) -> int:
    """Return the credit that contents together take from a delivery window."""
    if same_size:
        return len(contents) * cost_of(len(contents[0]))
    return sum(cost_of(len(content)) for content in contents)
