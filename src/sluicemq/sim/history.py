"""Checks what clients have seen against what was promised them.

It knows nothing of the broker's inside: everything here comes from what clients sent and received.
(The model tells `accepted` and `safe`, so that the same promises can be checked at once.)

    lost         confirmed, or sent on a connection that ended well => seen by a consumer of each
                 queue it was routed to; of a broken connection a prefix is seen, without gaps.
                 In queues that dead-letter: acknowledged there, or seen in each of the graves
    invented     every message seen was sent to that queue, and is unchanged to the last bit
    confirms     each number once, only numbers that were used, only after it is safe everywhere,
                 a returned message only after its basic.return
    duplicates   a message comes again only when its holder requeued it or is gone, and flagged
                 then; never after an acknowledgement that cannot have been lost
    order        first deliveries to one consumer are in the order of their stream, and of their
                 priority if there are priorities
    prefetch     a consumer never holds more than its limit, nor does a channel

For its queue a queue's own fault is like a kill, though connections stay: a message sent to it
before it is read back may be there or not, except for confirmed persistent ones in a durable queue;
it may be refused; and settled messages may come again.

A crash ends all connections at once. For messages sent before it:

    lost         confirmed and persistent in a durable queue => seen, before or after it; of the
                 rest each message may be there or not. After an orderly stop: persistent messages
                 in durable queues are as if their connection had broken
    duplicates   a message that was acknowledged (or sent to a no-ack consumer) may come again,
                 flagged, unless that was on the disk: it was settled before a persistent publish to
                 the same queue that was confirmed before another one that was confirmed in the end
                 (an acknowledgement may be one group behind), neither of them taken before that
    order        the first deliveries since then are in order again, until a message is requeued;
                 all may be flagged
"""

from __future__ import annotations

from sluicemq.sim.messages import MessageId
from sluicemq.sim.quorum_rules import well_counted, well_refused
from sluicemq.sim.records import (
    ACKED,
    BROKEN,
    LASTING,
    LOG,
    NEVER,
    NO_ACK,
    OUT,
    PASSING,
    REJECTED,
    REQUEUED,
    STOP,
    UNSEEN,
    VOLATILE,
    Consumption,
    Delivery,
    Holder,
    LogHistory,
    PromiseBroken,
    PublishedStream,
    QueueHistory,
    SentMessage,
    promise,
)


class History:
    """What clients know about all publishers and queues of a run."""

    told_what_is_safe = True
    """Models tell it; without them no confirm or burial is found to come too early."""

    def __init__(self) -> None:
        self.streams: list[PublishedStream] = []
        self.queues: dict[str, QueueHistory] = {}
        self.published = 0
        self.confirmed = 0
        self.returned = 0
        self.delivered = 0
        self.redelivered = 0
        self.settled = 0
        self.buried = 0
        """Messages that were dead-lettered and are in their graves."""
        self.crashes: list[str] = []
        """Kinds of crashes, in order."""
        self.moment = 0
        self.logs: dict[str, LogHistory] = {}
        self.holders: dict[Holder, None] = {}
        """Holders that have received something and have not ended."""

    def queue(self, name: str, kind: str = VOLATILE, durable: bool = True) -> QueueHistory:
        """Return the history of that queue name; a new one promises nothing unless
        `kind` says so.
        """
        known = self.queues.get(name)
        if known is None:
            known = self.queues[name] = QueueHistory(name, kind, durable)
            known.on_disk_at_crash = [-1] * len(self.crashes)
        return known

    def log(self, name: str) -> LogHistory:
        """Return the history of the stream of that name."""
        known = self.logs.get(name)
        if known is None:
            known = self.logs[name] = LogHistory(self.queue(name))
        return known

    def now(self) -> int:
        """Return a new moment, later than all earlier ones."""
        self.moment += 1
        return self.moment

    # -- publishing

    def stream(self, name: str, confirming: bool) -> PublishedStream:
        """Begin the record of one publisher's channel."""
        stream = PublishedStream(len(self.streams), name, confirming)
        self.streams.append(stream)
        return stream

    def publish(
        self,
        stream: PublishedStream,
        targets: tuple[str, ...],
        mandatory: bool = False,
        spread: bool = False,
        persistent: bool = True,
        priority: int = 0,
        due_ns: int = 0,
    ) -> int:
        """Note a message that is about to be sent; returns its sequence number, from 0."""
        self.published += 1
        sequence = len(stream.sent)
        sent = SentMessage(targets, mandatory, spread, persistent, priority, self.now(), due_ns)
        stream.sent.append(sent)
        for target in targets:
            stream.sent_to.setdefault(target, []).append(sequence)
            sent.behind.append(self.queues[target].confirmed)
        if stream.confirming:
            stream.unconfirmed[sequence + 1] = sent
        return sequence

    def confirm(self, stream: PublishedStream, tag: int, multiple: bool) -> int:
        """Check a basic.ack from the broker; returns how many messages it confirms."""
        promise(tag in stream.unconfirmed, stream.name, "is told again, or untimely, of", tag)
        tags = [tag]
        if multiple:
            tags = [each for each in stream.unconfirmed if each <= tag]
        for each in tags:
            sent = stream.unconfirmed.pop(each)
            sent.confirmed = True
            for target, behind in zip(sent.targets, sent.behind, strict=True):
                queue = self.queues[target]
                if queue.is_quorum or (
                    sent.persistent
                    and queue.durable
                    and queue.promise not in UNSEEN
                    and not queue.is_taken((stream.number, each - 1))
                ):
                    queue.confirmed = max(queue.confirmed, sent.at)
                    queue.on_disk = max(queue.on_disk, behind)
                if self.told_what_is_safe and queue.promise not in (*PASSING, LOG):
                    text = f"{stream.name} hears that {each} is safe, but it is not in {target}"
                    promise(target in sent.safe, text)
            if sent.mandatory and not sent.targets:
                promise(sent.returned, stream.name, each, "is confirmed before it is returned")
        self.confirmed += len(tags)
        return len(tags)

    def reject(self, stream: PublishedStream, tag: int, multiple: bool) -> None:
        """Check a basic.nack from the broker: a queue has had a fault, is full, or is being deleted
        and redeclared. One such queue refuses all of its part of a batch."""
        promise(tag in stream.unconfirmed, stream.name, "is told again, or untimely, of", tag)
        tags = [tag]
        if multiple:
            tags = [each for each in stream.unconfirmed if each <= tag]
        queues = self.queues.values()
        may_be = any(queue.is_choosy or queue.had_fault for queue in queues)
        promise(may_be, stream.name, "is refused", *tags)
        for each in tags:
            stream.unconfirmed.pop(each).refused = True

    def give_back(self, stream: PublishedStream, message: MessageId | None) -> None:
        """Check a message that the broker returned with basic.return."""
        promise(message is not None, stream.name, "gets back what nobody sent")
        assert message is not None
        promise(message[0] == stream.number, stream.name, "gets back", message)
        sent = stream.sent[message[1]]
        promise(sent.mandatory, message, "is returned though it is not mandatory")
        promise(not sent.returned, message, "is returned twice")
        routed = [name for name in sent.targets if self.queues[name].promise not in PASSING]
        promise(not routed, message, "is returned though it is for", *routed)
        sent.returned = True
        self.returned += 1

    def accept(self, queue: str, message: MessageId) -> None:
        """Note that the queue has taken a message, which must be the next of its stream."""
        history = self.queue(queue)
        number, sequence = message
        if history.source is not None:
            well = self.may_have(history, message)
            promise(well, queue, "takes in", message, "which cannot have died for it")
            return
        if history.is_choosy or history.had_fault:
            sent = self.streams[number].sent[sequence]
            in_order = history.accepted.get(number, -1) < sequence
            meant = sent.spread or queue in sent.targets
            promise(meant and in_order, queue, "takes in", message)
            history.accepted[number] = sequence
            return
        due = self.streams[number].sent_to.get(queue, [])
        index = history.accepted.get(number, 0)
        next_due = due[index] if index < len(due) else None
        promise(next_due == sequence, queue, "takes in", message, "when due is", next_due)
        history.accepted[number] = index + 1

    def make_safe(self, queue: str, message: MessageId) -> None:
        """Note that the queue may confirm the message now."""
        self.streams[message[0]].sent[message[1]].safe.append(queue)

    def bury(self, queue: str, message: MessageId) -> None:
        """Note that the queue has dead-lettered a message, and check that it is safe elsewhere."""
        history = self.queue(queue)
        history.buried[message] += 1
        self.buried += bool(history.graves)
        safe = self.streams[message[0]].sent[message[1]].safe
        for grave in history.graves:
            there = safe.count(grave.name) >= history.buried[message] or not self.told_what_is_safe
            promise(there, queue, "lets go of", message, "before it is safe in", grave.name)

    def may_have(self, history: QueueHistory, message: MessageId) -> bool:
        """Tell whether the queue may have the message, by where it was published."""
        source = history
        while source.source is not None:
            source = source.source
        sent = self.streams[message[0]].sent[message[1]]
        return source.name in sent.targets or (source.promise in PASSING and sent.spread)

    def may_have_copies(self, history: QueueHistory) -> bool:
        """Tell whether the queue may have got the same message twice."""
        if history.source is None:
            return False
        return bool(self.crashes) or history.had_fault or history.source.had_fault

    # -- consuming

    def deliver(
        self,
        message: MessageId | None,
        by: Consumption,
        redelivered: bool,
        no_ack: bool,
        returns: int = 0,
    ) -> Delivery:
        """Note that a client has received a message, and check that it may. `returns` is how often
        it was requeued, if its queue counts that."""
        history = self.queue(by.queue)
        promise(message is not None, by.holder, "receives what nobody sent, from", by.queue)
        assert message is not None
        number, sequence = message
        known = number < len(self.streams) and sequence < len(self.streams[number].sent)
        promise(known, by.holder, "receives", message, "which was not sent yet")
        sent = self.streams[number].sent[sequence]
        right = self.may_have(history, message)
        promise(right, message, "comes from", by.queue, "not from", sent.targets)
        before = history.seen.setdefault(message, [])
        copies = self.may_have_copies(history)
        for earlier in before if not copies else ():
            self._may_come_again(message, earlier, by)
        stream = self.streams[number]
        crossed = sequence < max(stream.before_crash, stream.before_stop)
        if before and not copies:
            late = history.had_fault and all(each.flagged for each in before)  # from before it
            flagged = redelivered or late
            promise(flagged, message, "comes again to", by.holder, "without being flagged")
        elif redelivered and not before:
            why = "is flagged, but nobody can have had it"
            promise(history.given_back_unseen > 0 or crossed, message, why)
        self.delivered += 1
        self.redelivered += redelivered
        crashes = len(self.crashes)
        first_since = crossed and not any(each.crashes == crashes for each in before)
        in_order = not redelivered or (first_since and not history.given_back_since)
        if history.is_quorum:
            in_order = not redelivered and not history.is_shuffled
            well_refused(history, message, sent)
            if not copies:
                well_counted(history, message, before, returns, crashes)
        if in_order and history.source is None:  # a grave has the order of deaths
            row = number, min(sent.priority, history.highest)
            last = by.last_of.get(row, -1)
            promise(last < sequence, by.holder, "gets", message, "after", last)
            by.last_of[row] = sequence
        counted = by.limit >= 0 and not no_ack
        state = NO_ACK if no_ack else OUT
        delivery = Delivery(message, by, state, counted, crashes, redelivered, returns)
        if no_ack:
            delivery.dealt_with = self.now()
        if not by.holder.ended:
            self.holders[by.holder] = None
        before.append(delivery)
        if delivery.counted:
            self._count(by)
        return delivery

    def _may_come_again(self, message: MessageId, earlier: Delivery, by: Consumption) -> None:
        if self.queue(by.queue).had_fault:
            return
        holder = earlier.by.holder
        where = f"{message} comes to {by.holder} from {by.queue}"
        dealt_with = earlier.dealt_with
        if earlier.state == OUT:
            promise(bool(holder.ended), where, "while", holder, "holds it")
        elif earlier.state == REQUEUED:
            return
        elif earlier.state == REJECTED:
            lost = holder.ended == BROKEN or earlier.crashes < len(self.crashes)
            promise(lost, where, "after", holder, "rejected it")
        elif earlier.crashes < len(self.crashes):
            on_disk = self.queue(by.queue).on_disk_at_crash[earlier.crashes]
            if self.crashes[earlier.crashes] == STOP:
                on_disk = NEVER - 1
            promise(dealt_with > on_disk, where, "though it is durable that", holder, "is done")
        elif earlier.state == ACKED:
            lost = holder.ended == BROKEN and dealt_with == NEVER
            promise(lost, where, "after", holder, "acknowledged it")
        else:
            promise(False, where, "after no-ack delivery to", holder)

    def _count(self, by: Consumption) -> None:
        holder = by.holder
        by.held += 1
        holder.held += 1
        promise(not 0 < by.limit < by.held, holder, "holds", by.held, "with prefetch", by.limit)
        limit = holder.limit
        promise(not 0 < limit < holder.held, holder, "holds", holder.held, "of", limit, "global")

    def settle(self, delivery: Delivery, state: str) -> None:
        """Note that the client sends ack, nack or reject."""
        assert delivery.state == OUT
        delivery.state = state
        delivery.settled = self.now()
        if state == ACKED:
            delivery.by.holder.unanswered.append(delivery)
        self.settled += 1
        if delivery.counted:
            delivery.by.held -= 1
            delivery.by.holder.held -= 1

    def answered(self, holder: Holder, asked: int = NEVER) -> None:
        """Note an answer: acknowledgements sent before the moment `asked` have arrived."""
        settled = [each for each in holder.unanswered if each.settled < asked]
        if settled:
            now = self.now()
            for delivery in settled:
                delivery.dealt_with = now
            holder.unanswered = [each for each in holder.unanswered if each.settled >= asked]

    def end(self, holder: Holder, how: str) -> None:
        """Note that the holder's channel ends, from the moment on at which its client wants that. A
        channel that was to end well may break first."""
        if not holder.ended:
            self.give_back_unseen(holder)
        holder.ended = how
        self.holders.pop(holder, None)

    def give_back_unseen(self, holder: Holder) -> None:
        """Note that messages in flight to the holder are requeued."""
        for name in holder.queues:
            queue = self.queue(name)
            queue.given_back_unseen += 1
            queue.given_back_since += 1
            queue.is_shuffled = True

    def fault(self, queue: str) -> None:
        """Note that the broker has had a fault in that queue, and reads it back."""
        history = self.queue(queue)
        if not history.had_fault and not history.is_choosy:  # last ones, not how many
            for number, count in history.accepted.items():
                due = self.streams[number].sent_to[queue]
                history.accepted[number] = due[count - 1] if count else -1
        history.had_fault = history.is_shuffled = True
        history.given_back_unseen += 1
        history.given_back_since += 1
        self.read_back(queue)

    def read_back(self, queue: str) -> None:
        """Note that the queue promises again what it did before its fault."""
        history = self.queue(queue)
        history.before_fault = {stream.number: len(stream.sent) for stream in self.streams}

    # -- the broker's end

    def crash(self, kind: str) -> None:
        """Note that the node has ended: KILL, POWER or STOP. Call it when the clients' connections
        have ended, and before anything new begins."""
        for stream in self.streams:
            sent = len(stream.sent)
            if kind == STOP:
                stream.before_stop = sent
            else:
                stream.before_crash = sent
            stream.ended = stream.ended or BROKEN
        for holder in list(self.holders):
            self.end(holder, BROKEN)
        for queue in self.queues.values():
            queue.on_disk_at_crash.append(queue.on_disk)
            queue.given_back_since = 0
        self.crashes.append(kind)

    # -- the end

    def all_is_well(self) -> None:
        """Check that every message that had to be seen has been seen, now that everything is
        drained."""
        for log in self.logs.values():
            log.all_is_well()
        for stream in self.streams:
            if stream.confirming and stream.ended != BROKEN:
                first = next(iter(stream.unconfirmed), None)
                promise(first is None, stream.name, "never hears of", first)
            for name, sequences in stream.sent_to.items():
                if self.queues[name].promise in LASTING:
                    self._seen_without_gaps(stream, name, sequences)

    def _seen_without_gaps(self, stream: PublishedStream, name: str, sequences: list[int]) -> None:
        queue = self.queues[name]
        before_fault = queue.sent_before_fault(stream.number)
        missing: int | None = None
        for sequence in sequences:
            sent = stream.sent[sequence]
            survives = queue.survives(sent.persistent)
            seen = queue.has_arrived((stream.number, sequence))
            crashed = sequence < max(stream.before_crash, before_fault)
            if crashed or (sequence < stream.before_stop and not survives):
                must = crashed and survives and sent.confirmed
                lost = f"{(stream.number, sequence)} of {stream.name} is lost in {name}"
                promise(seen or not must, lost, "in a crash, though it was confirmed")
            elif not seen:
                lost = f"{(stream.number, sequence)} of {stream.name} is lost in {name}"
                promise(not sent.confirmed, lost, "though it was confirmed")
                if queue.refuses:
                    continue
                promise(stream.ended == BROKEN, lost)
                if missing is None:
                    missing = sequence
            elif missing is not None:
                text = f"{stream.name}: {missing} is lost in {name}, {sequence} is not"
                raise PromiseBroken(text)
