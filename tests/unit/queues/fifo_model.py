"""What a quorum queue does, message by message on plain lists, to hold the machine against.

Slow and obvious. It gives what is seen of a command: answers in order, what each consumer gets, and
what dies, a tuple a message.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.commands import ACK, REQUEUE, Configure
from sluicemq.queues.quorum import commands as c
from sluicemq.queues.quorum import effects as e
from sluicemq.queues.quorum.commands import DEAD_LETTER_WORKER, UNSENT, ConsumerKey
from sluicemq.queues.settings import AT_LEAST_ONCE, DROP_HEAD, REJECT_PUBLISH, QueueSettings

DEAD_MAX = 3
"""In place of QUORUM_DEAD_LETTERS_MAX."""

Seen = dict[object, list[tuple[Any, ...]]]
"""By what is kept in order: None for answers, a consumer, or "dead"."""


@dataclass
class Message:
    entry: int
    place: int
    size: int
    expiry: int
    returns: int = 0
    redelivered: bool = False
    reason: str = ""


@dataclass
class Holder:
    prefetch: int = 0
    priority: int = 0
    exclusive: bool = False
    status: str = "cancelled"
    next_id: int = 0
    out: dict[int, Message] = field(default_factory=dict)


@dataclass
class Sender:
    next_seq: int = 1
    heard: int = 1
    taken: dict[int, bool] = field(default_factory=dict)


def seen(effects: list[e.FifoEffect]) -> Seen:
    """Effects as the model has them."""
    found: Seen = {}
    for effect in effects:
        if isinstance(effect, e.FifoDelivered):
            for part in effect.parts:
                found.setdefault(effect.consumer, []).extend(parts_of(part, effect.is_again))
        elif isinstance(effect, e.DeadLettered):
            for dead in effect.parts:
                found.setdefault("dead", []).extend(
                    (id_, dead.entry, place, dead.returns, dead.reason, effect.is_again)
                    for id_, place in numbered(dead.first_id, dead.places)
                )
        elif isinstance(effect, e.Enqueued | e.EnqueueRejected):
            found.setdefault(None, []).extend(
                (type(effect).__name__, effect.sender, effect.first_seq + i)
                for i in range(effect.messages)
            )
        elif isinstance(effect, e.MessageGot):
            got = None if effect.part is None else parts_of(effect.part, False)[0]
            found.setdefault(None, []).append(("MessageGot", effect.channel, got, effect.ready))
        elif isinstance(effect, e.RowBegins):
            found.setdefault(None, []).append(("RowBegins", *effect.values()))
        else:
            found.setdefault(None, []).append((type(effect).__name__, *effect))
    return found


def snake(kind: type) -> str:
    """The name of a class as one of a function."""
    return re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def parts_of(part: e.DeliveredPart, is_again: bool) -> list[tuple[Any, ...]]:
    return [
        (id_, part.entry, place, part.returns, part.redelivered, is_again)
        for id_, place in numbered(part.first_id, part.places)
    ]


def numbered(first_id: int, places: range) -> list[tuple[int, int]]:
    """Each place with its id, which is -1 where nothing is to be settled."""
    return [(first_id + i if first_id >= 0 else -1, place) for i, place in enumerate(places)]


class FifoModel:
    """The whole queue."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.fresh: list[Message] = []
        self.returned: list[Message] = []
        self.pending: list[Message] = []
        self.dead: dict[int, Message] = {}
        self.next_dead = 0
        self.holders: dict[ConsumerKey, Holder] = {}
        self.rings: dict[int, list[ConsumerKey]] = {}
        self.senders: dict[ActorAddress, Sender] = {}
        self.ended: set[ActorAddress] = set()
        self.lives: dict[int, int] = {}
        self.rows: dict[int, tuple[ActorAddress, int]] = {}
        self.is_repeat = False
        self.rejects = False
        self.deleted = False
        self.index = 0
        self.now = 0
        self.place = 0
        self.used = 0
        self.seen: Seen = {}
        self.gone: list[tuple[int, int]] = []
        """What has left the queue, for whatever reason."""
        self.came_back: Counter[tuple[int, int]] = Counter()
        """How often a message has come back, seen or unseen, and waits again."""

    # -- what the test asks

    def step(self, index: int, stamp: int, commands: list[c.FifoCommand]) -> Seen:
        self.index, self.place, self.seen = index, 0, {}
        self.now = max(self.now, stamp)
        self.used = self.used or self.now
        self.is_repeat = False
        for command in commands:
            if self.is_repeat and not isinstance(command, c.Asked):
                self.place += command.count if isinstance(command, c.Enqueue) else 0
                continue
            if self.deleted:
                self.answer_deleted(command)
                continue
            getattr(self, f"do_{snake(type(command))}")(command)
            if not self.deleted and (self.settings.has_limit or self.rejects):
                self.serve()
                self.limit()
        if not self.deleted:
            self.serve()
            self.hand_over()
        return self.seen

    def ready(self) -> list[Message]:
        return self.returned + self.fresh

    def all(self) -> list[Message]:
        out = [message for holder in self.holders.values() for message in holder.out.values()]
        return self.ready() + out + self.pending + [*self.dead.values()]

    def say(self, *what: object, to: object = None) -> None:
        self.seen.setdefault(to, []).append(what)

    def answer_deleted(self, command: c.FifoCommand) -> None:
        if isinstance(command, c.Enqueue):
            for seq in range(command.first_seq, command.first_seq + command.count):
                self.say("Enqueued", command.sender, seq)
        elif isinstance(command, c.RegisterEnqueuer):
            self.say("EnqueuerRegistered", command.sender, 1, False)
        elif isinstance(command, c.AddConsumer):
            self.say("FifoRefused", command.consumer.channel, 404, "no queue")
        elif isinstance(command, c.GetMessage | c.PurgeQueue):
            self.say("FifoRefused", command.channel, 404, "no queue")
        elif isinstance(command, c.DeleteFifo) and command.channel is not None:
            self.say("FifoDeleted", command.channel, 0)
        elif isinstance(command, c.Asked):
            self.do_asked(command)

    # -- enqueueing

    def over(self, address: ActorAddress) -> bool:
        return address in self.ended or address.incarnation < self.lives.get(address.node, 0)

    def do_register_enqueuer(self, command: c.RegisterEnqueuer) -> None:
        sender = self.senders.get(command.sender)
        if sender is None and not self.over(command.sender):
            sender = self.senders[command.sender] = Sender()
        self.say(
            "EnqueuerRegistered", command.sender, sender.next_seq if sender else 0, self.rejects
        )

    def do_enqueue(self, command: c.Enqueue) -> None:
        first = self.place
        self.place += command.count
        sender = self.senders.get(command.sender)
        if sender is None or command.first_seq > sender.next_seq:
            expected = sender.next_seq if sender else 0
            self.say("EnqueueRefused", command.sender, command.first_seq, expected)
            if sender:
                sender.heard = max(sender.heard, min(command.heard_seq, sender.next_seq))
            return
        sender.heard = max(sender.heard, min(command.heard_seq, sender.next_seq))
        ttls = [t for t in (command.ttl_ms, self.settings.message_ttl_ms) if t is not None]
        expiry = self.now + max(1, min(ttls)) if ttls else 0
        for i in range(command.count):
            seq = command.first_seq + i
            size = command.size if command.sizes is None else command.sizes[i]
            if seq == sender.next_seq:
                sender.next_seq += 1
                sender.taken[seq] = not self.rejects
                if not self.rejects:
                    self.fresh.append(Message(self.index, first + i, size, expiry))
            elif seq < sender.heard:
                continue
            self.say("Enqueued" if sender.taken[seq] else "EnqueueRejected", command.sender, seq)

    # -- serving

    def turn(self) -> ConsumerKey | None:
        for priority in sorted(self.rings, reverse=True):
            for key in self.rings[priority]:
                return key
        return None

    def credit(self, key: ConsumerKey) -> int:
        return self.holders[key].prefetch - len(self.holders[key].out)

    def enter(self, key: ConsumerKey) -> None:
        holder = self.holders[key]
        ring = self.rings.setdefault(holder.priority, [])
        if holder.status == "up" and self.credit(key) > 0 and key not in ring:
            ring.append(key)

    def pop(self) -> Message:
        return (self.returned or self.fresh).pop(0)

    def serve(self) -> None:
        while self.ready():
            if 0 < self.ready()[0].expiry <= self.now:
                self.die(self.pop(), "expired")
                continue
            key = self.turn()
            if key is None:
                return
            holder = self.holders[key]
            self.rings[holder.priority].remove(key)
            message = self.pop()
            holder.out[holder.next_id] = message
            self.deliver(key, holder.next_id, message)
            holder.next_id += 1
            self.enter(key)

    def deliver(self, key: ConsumerKey, id_: int, m: Message, again: bool = False) -> None:
        self.say(id_, m.entry, m.place, m.returns, m.redelivered, again, to=key)

    def do_get_message(self, command: c.GetMessage) -> None:
        self.used = self.now
        self.serve()
        if not self.ready():
            self.say("MessageGot", command.channel, None, 0)
            return
        m = self.pop()
        id_ = -1
        if command.no_ack:
            self.gone.append((m.entry, m.place))
        else:
            holder = self.holder(ConsumerKey(command.channel, ""))
            id_ = holder.next_id
            holder.out[id_] = m
            holder.next_id += 1
        got = (id_, m.entry, m.place, m.returns, m.redelivered, False)
        self.say("MessageGot", command.channel, got, len(self.ready()))

    # -- settling

    def do_settle_delivered(self, command: c.SettleDelivered) -> None:
        ids = [id_ for start, end in command.ids for id_ in range(start, end)]
        if command.consumer == DEAD_LETTER_WORKER:
            for id_ in ids:
                if id_ in self.dead:
                    self.settle_dead(self.dead.pop(id_), command.outcome)
            return
        holder = self.holders.get(command.consumer)
        if holder is None:
            return
        for id_ in ids:
            if id_ not in holder.out:
                continue
            message = holder.out.pop(id_)
            if command.outcome == ACK:
                self.gone.append((message.entry, message.place))
            elif command.outcome == REQUEUE:
                self.give_back(message, 1)
            elif command.outcome == UNSENT:
                self.put_back(message)
            else:
                self.die(message, "rejected")
        self.enter(command.consumer)
        self.tidy(command.consumer)

    def settle_dead(self, message: Message, outcome: int) -> None:
        if outcome != REQUEUE:
            self.gone.append((message.entry, message.place))
        elif self.must_arrive():
            self.pending.append(message)
        else:
            self.let_go(message)

    def give_back(self, message: Message, counts: int) -> None:
        message.redelivered = True
        message.returns += counts
        limit = self.settings.delivery_limit
        if counts and limit is not None and 0 <= limit < message.returns:
            self.die(message, "delivery_limit")
        else:
            self.put_back(message)

    def put_back(self, message: Message) -> None:
        self.came_back[message.entry, message.place] += 1
        self.returned.append(message)

    def do_resume_consumer(self, command: c.ResumeConsumer) -> None:
        if command.consumer == DEAD_LETTER_WORKER:
            for id_, message in self.dead.items():
                if id_ >= command.next_id:
                    self.say(*self.dead_row(id_, message), True, to="dead")
            return
        holder = self.holders.get(command.consumer)
        if holder is None:
            self.say("ConsumerGone", command.consumer, True)
            return
        for id_, message in holder.out.items():
            if id_ >= command.next_id:
                self.deliver(command.consumer, id_, message, True)

    # -- consumers

    def up(self) -> list[ConsumerKey]:
        return [key for key, holder in self.holders.items() if holder.status != "cancelled"]

    def do_add_consumer(self, command: c.AddConsumer) -> None:
        key = command.consumer
        holder = self.holders.get(key)
        if holder is None or holder.status == "cancelled":
            others = self.up()
            alone = self.settings.single_active_consumer
            if any(self.holders[other].exclusive for other in others) or (
                command.exclusive and (others or alone)
            ):
                self.say("FifoRefused", key.channel, 403, "queue in exclusive use")
                return
            holder = self.holder(key)
            holder.prefetch = command.prefetch
            holder.priority = command.priority
            holder.exclusive = command.exclusive
            active = any(self.holders[other].status == "up" for other in others)
            holder.status = "waiting" if alone and active else "up"
            self.enter(key)
        self.say("ConsumerAdded", key, holder.next_id, holder.status == "up")

    def cancel(self, key: ConsumerKey) -> None:
        holder = self.holders[key]
        was_up, holder.status = holder.status == "up", "cancelled"
        for ring in self.rings.values():
            if key in ring:
                ring.remove(key)
        waiting = [k for k, h in self.holders.items() if h.status == "waiting"]
        if was_up and waiting:
            best = max(self.holders[k].priority for k in waiting)
            successor = next(k for k in waiting if self.holders[k].priority == best)
            self.holders[successor].status = "up"
            self.enter(successor)
            self.say("ConsumerActive", successor)
        self.tidy(key)

    def holder(self, key: ConsumerKey) -> Holder:
        former = self.holders.get(ConsumerKey(key.channel, ""), Holder())
        return self.holders.setdefault(key, Holder(next_id=former.next_id))

    def tidy(self, key: ConsumerKey) -> None:
        if self.holders[key].status == "cancelled" and not self.holders[key].out and key.tag:
            next_id = self.holders.pop(key).next_id
            if next_id:
                got = self.holder(ConsumerKey(key.channel, ""))
                got.next_id = max(got.next_id, next_id)

    def do_cancel_consumer(self, command: c.CancelConsumer) -> None:
        if command.consumer in self.up():
            self.used = self.now
            self.cancel(command.consumer)
        self.say("ConsumerGone", command.consumer, False)

    def end(self, channel: ActorAddress, counts: int) -> None:
        keys = [key for key in self.holders if key.channel == channel]
        for key in sorted(
            keys, key=lambda k: self.settings.single_active_consumer and k in self.active()
        ):
            if key in self.up():
                self.used = self.now
            messages = [*self.holders[key].out.values()]
            self.holders[key].out.clear()
            self.cancel(key)
            for message in messages:
                self.give_back(message, counts)
        self.holders.pop(ConsumerKey(channel, ""), None)

    def active(self) -> list[ConsumerKey]:
        return [key for key, holder in self.holders.items() if holder.status == "up"]

    def do_address_down(self, command: c.AddressDown) -> None:
        self.end(command.channel, 0 if command.is_lost else 1)
        self.senders.pop(command.channel, None)
        self.ended.add(command.channel)

    def do_node_restarted(self, command: c.NodeRestarted) -> None:
        self.lives[command.node] = max(self.lives.get(command.node, 0), command.incarnation)
        life = self.lives[command.node]
        channels = dict.fromkeys(key.channel for key in self.holders)
        for address in [*channels, *self.senders]:
            if address.node == command.node and address.incarnation < life:
                self.end(address, 0)
                self.senders.pop(address, None)

    # -- the queue

    def drop(self, messages: list[Message]) -> None:
        self.gone += [(message.entry, message.place) for message in messages]
        messages.clear()

    def do_purge_queue(self, command: c.PurgeQueue) -> None:
        self.say("QueuePurged", command.channel, len(self.ready()))
        self.drop(self.returned)
        self.drop(self.fresh)

    def do_delete_fifo(self, command: c.DeleteFifo) -> None:
        if command.if_unused and self.up():
            unmet = "in use"
        elif command.if_empty and self.ready():
            unmet = "not empty"
        else:
            self.disappear(command.channel)
            return
        if command.channel is not None:
            self.say("FifoRefused", command.channel, 406, f"queue {unmet}")

    def disappear(self, channel: ActorAddress | None) -> None:
        for key in self.up():
            self.say("ConsumerGone", key, True)
        self.say("FifoDeleted", channel, len(self.ready()))
        self.drop(self.all())
        self.fresh, self.returned, self.pending, self.dead = [], [], [], {}
        self.holders, self.rings, self.senders = {}, {}, {}
        self.deleted = True

    def do_use_queue(self, _: c.UseQueue) -> None:
        self.used = self.now

    def do_asked(self, command: c.Asked) -> None:
        row = command.asker, command.number
        self.is_repeat = row <= self.rows.get(command.asker.node, ())
        if not self.is_repeat:
            self.rows[command.asker.node] = row
            self.say("RowBegins", *row)

    def do_pass_time(self, _: c.PassTime) -> None:
        expires = self.settings.expires_ms
        if expires is not None and not self.up() and self.now >= self.used + expires:
            self.disappear(None)

    def do_configure(self, command: Configure) -> None:
        self.settings = command.settings
        if not self.must_arrive():
            pending, self.pending = self.pending, []
            for message in pending:
                self.let_go(message)

    # -- dying

    def must_arrive(self) -> bool:
        settings = self.settings
        return (
            settings.dead_letter_exchange is not None
            and settings.dead_letter_strategy == AT_LEAST_ONCE
            and settings.overflow == REJECT_PUBLISH
        )

    def die(self, message: Message, reason: str) -> None:
        message.reason = reason
        if self.must_arrive():
            self.pending.append(message)
        else:
            self.let_go(message)

    def let_go(self, message: Message) -> None:
        self.gone.append((message.entry, message.place))
        if self.settings.dead_letter_exchange is not None:
            self.say(*self.dead_row(-1, message), False, to="dead")

    def dead_row(self, id_: int, m: Message) -> tuple[object, ...]:
        return id_, m.entry, m.place, m.returns, m.reason

    def hand_over(self) -> None:
        while self.pending and len(self.dead) < DEAD_MAX:
            message = self.pending.pop(0)
            self.dead[self.next_dead] = message
            self.say(*self.dead_row(self.next_dead, message), False, to="dead")
            self.next_dead += 1

    def figures(self) -> tuple[int, int]:
        ready = self.ready()
        return len(ready), sum(message.size for message in ready)

    def limit(self) -> None:
        settings = self.settings
        if settings.overflow == DROP_HEAD:
            while self.ready() and self.exceeds(*self.figures(), 100):
                self.die(self.pop(), "maxlen")
        rejects = False
        if settings.overflow == REJECT_PUBLISH:
            count, size = self.figures()
            letters = [*self.pending, *self.dead.values()]
            size += sum(message.size for message in letters)
            rejects = self.exceeds(count + len(letters), size, 80 if self.rejects else 100)
        if rejects != self.rejects:
            self.rejects = rejects
            self.say("PublishStatus", rejects)

    def exceeds(self, count: int, size: int, percent: int) -> bool:
        limits = ((count, self.settings.max_length), (size, self.settings.max_length_bytes))
        return any(limit is not None and n > limit * percent // 100 for n, limit in limits)
