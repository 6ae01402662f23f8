"""Members of a quorum queue that apply the same entries, and what must hold after each of them.

One member applies commands as they are. The other reads them from the log, and now and then becomes
what a snapshot says, in the middle of everything. The model says what is seen from outside.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.commands import ACK, REJECT, REQUEUE, Configure
from sluicemq.queues.quorum import commands as c
from sluicemq.queues.quorum.command_codec import decode_entry, encode_entry, enqueue_of
from sluicemq.queues.quorum.commands import DEAD_LETTER_WORKER, UNSENT, ConsumerKey
from sluicemq.queues.quorum.effects import (
    DeliveredPart,
    Enqueued,
    FifoDelivered,
    FifoEffect,
    MessageGot,
    RowBegins,
)
from sluicemq.queues.quorum.fifo import Fifo
from sluicemq.queues.settings import NO_SETTINGS, QueueSettings
from support.batches import batch_of

from .fifo_model import FifoModel, seen

CHANNELS: Final = [
    ActorAddress(1, 1, 1),
    ActorAddress(1, 1, 2),
    ActorAddress(2, 1, 1),
    ActorAddress(2, 2, 1),
]
TAGS: Final = ["a", "b"]
OUTCOMES: Final = [ACK, ACK, REQUEUE, REJECT, UNSENT]

Op = tuple[Any, ...]
Entry = tuple[list[Op], int, bool]


def content_of(size: int) -> bytes:
    """A content as it came from a client, with a body of so many bytes."""
    head = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00" + size.to_bytes(8) + b"\x00\x00\xce"
    return head + b"\x03\x00\x01" + size.to_bytes(4) + bytes(size) + b"\xce"


def enqueue(
    sender: ActorAddress, first_seq: int, sizes: list[int], heard: int = 1, ttl: int | None = None
) -> c.Enqueue:
    contents = [content_of(size) for size in sizes]
    batch = batch_of(contents, same_size=len(set(sizes)) == 1, ttl_ms=ttl)
    return enqueue_of(batch, sender, first_seq, heard)


ttls = st.none() | st.integers(0, 30)
settings_of_fifos = st.builds(
    QueueSettings,
    message_ttl_ms=ttls,
    expires_ms=st.none() | st.integers(50, 100),
    max_length=st.none() | st.integers(0, 20),
    max_length_bytes=st.none() | st.integers(0, 60),
    overflow=st.sampled_from(["drop-head", "reject-publish", "reject-publish"]),
    dead_letter_exchange=st.sampled_from(["dlx", "dlx", None]),
    dead_letter_strategy=st.sampled_from(["at-least-once", "at-least-once", "at-most-once"]),
    delivery_limit=st.none() | st.integers(-1, 2),
    single_active_consumer=st.booleans(),
)
who = st.sampled_from([0, 0, 0, 1, 1, 2, 3])
tags = st.sampled_from(TAGS)
outcomes = st.sampled_from(OUTCOMES)
few = st.integers(0, 6)
publish_op = st.tuples(
    st.just("publish"),
    who,
    st.lists(few, min_size=1, max_size=6) | st.builds(lambda n: [3] * n, st.integers(1, 9)),
    st.sampled_from([0, 0, 0, 0, 0, -1, -3, -8, 1]),
    st.integers(0, 9),
    st.none() | ttls,
)
settle_op = st.tuples(st.just("settle"), who, st.sampled_from([*TAGS, ""]), few, few, outcomes)
ops = st.one_of(
    publish_op,
    publish_op,
    publish_op,
    settle_op,
    settle_op,
    settle_op,
    st.tuples(st.just("consume"), who, tags, st.integers(1, 6), st.integers(-1, 1), st.booleans()),
    st.tuples(st.just("consume"), who, tags, st.integers(1, 6), st.just(0), st.just(False)),
    st.tuples(st.just("settle dead"), few, few, st.sampled_from([ACK, REQUEUE])),
    st.tuples(st.just("register"), who),
    st.tuples(st.just("cancel"), who, tags),
    st.tuples(st.just("get"), who, st.booleans()),
    st.tuples(st.just("resume"), who, st.sampled_from([*TAGS, ""]), few),
    st.tuples(st.just("resume dead"), few),
    st.tuples(st.just("time")),
    st.tuples(st.just("down"), who, st.booleans()),
    st.tuples(st.just("rare"), st.integers(0, 9), settings_of_fifos),
)
entries = st.tuples(st.lists(ops, min_size=1, max_size=3), st.integers(-2, 12), st.booleans())


def rolled(random: Random) -> tuple[QueueSettings, list[Entry]]:
    """Settings and entries by chance, many of which do something: what Hypothesis makes it can
    shrink, but it takes longer to come to a bug."""
    pick = random.choice
    said = QueueSettings(
        message_ttl_ms=pick([None, None, 15]),
        max_length=pick([None, 2, 8, 15]),
        max_length_bytes=pick([None, None, 25]),
        overflow=pick(["drop-head", "reject-publish", "reject-publish"]),
        dead_letter_exchange=pick(["dlx", "dlx", None]),
        dead_letter_strategy=pick(["at-least-once", "at-most-once"]),
        delivery_limit=pick([None, 0, 2]),
        single_active_consumer=pick([False, False, True]),
    )
    return said, [
        ([rolled_op(random) for _ in range(pick([1, 1, 2]))], pick([0, 0, 3]), pick([True, False]))
        for _ in range(40)
    ]


def rolled_op(random: Random) -> Op:
    pick, below = random.choice, random.randrange
    at = pick([0, 0, 0, 1, 1, 2, 3])
    kind = pick(["publish"] * 4 + ["settle"] * 5 + ["consume"] * 2 + ["rest"])
    if kind == "publish":
        sizes = pick([[3] * (1 + below(9)), [below(6) for _ in range(1 + below(6))]])
        return kind, at, sizes, pick([0, 0, 0, -1, -3, -8, 1]), below(10), pick([None, None, 9, 30])
    if kind == "settle":
        return kind, at, pick([*TAGS, ""]), below(7), below(7), pick(OUTCOMES)
    if kind == "consume":
        return kind, at, pick(TAGS), 1 + below(5), pick([0, 0, 0, 1]), below(20) == 0
    return pick(
        [
            ("settle dead", below(7), below(7), pick([ACK, REQUEUE])),
            ("settle dead", below(7), below(7), ACK),
            ("register", at),
            ("cancel", at, pick(TAGS)),
            ("get", at, pick([False, False, True])),
            ("resume", at, pick([*TAGS, ""]), below(7)),
            ("resume dead", below(7)),
            ("time",),
            ("down", at, pick([True, True, False])),
            ("rare", 1 + below(4), NO_SETTINGS),
        ]
    )


class FifoBench:
    """Two members and the model."""

    def __init__(self, settings: QueueSettings) -> None:
        self.member = Fifo("queue", settings)
        self.other = Fifo("queue", settings)
        self.near = Fifo("queue", settings)
        """A member that speaks to the channels of one node only."""
        self.near.audience = CHANNELS[0].node
        self.model = FifoModel(settings)
        self.index = 0
        self.stamp = 1000
        self.delivered: Counter[tuple[int, int]] = Counter()
        self.live: set[tuple[int, int]] = set()

    def step(self, wanted: list[Op], later: int, is_restored: bool) -> None:
        """One entry with these commands, `later` milliseconds after the last one."""
        self.index += 1 + (later == 5)
        self.stamp += later
        commands = [self.command(op) for op in wanted]
        expected = self.model.step(self.index, self.stamp, commands)
        effects = applied(self.member, self.index, self.stamp, commands)
        others = applied(self.other, self.index, self.stamp, decode_entry(encode_entry(commands)))
        assert effects == others
        assert seen(effects) == expected
        node = self.near.audience
        near = applied(self.near, self.index, self.stamp, commands)
        heard = [each for each in effects if is_for(each, node)]
        assert [each for each in near if is_for(each, node)] == heard
        assert self.near.digest() == self.member.digest()
        if is_restored:
            pieces = [*self.member.snapshot()]
            assert pieces == [*self.other.snapshot()]
            assert self.member.digest() == self.other.digest()
            self.other = Fifo("queue")
            self.other.restore(pieces)
        self.check(effects)

    def command(self, op: Op) -> c.FifoCommand:
        kind, *rest = op
        if kind == "publish":
            return self.publish(*rest)
        if kind == "settle":
            at, tag, back, count, outcome = rest
            key = ConsumerKey(CHANNELS[at], tag)
            holder = self.model.holders.get(key)
            start = max(0, (holder.next_id if holder else 0) - back)
            ids = ((start, start + 1 + count), (start + 2 + count, start + 3 + count))
            return c.SettleDelivered(key, ids[: 1 + back % 2], outcome)
        if kind == "settle dead":
            back, count, outcome = rest
            start = max(0, self.model.next_dead - back)
            return c.SettleDelivered(DEAD_LETTER_WORKER, ((start, start + 1 + count),), outcome)
        if kind == "consume":
            at, tag, prefetch, priority, exclusive = rest
            key = ConsumerKey(CHANNELS[at], tag)
            return c.AddConsumer(key, prefetch, priority, exclusive)
        if kind == "cancel":
            return c.CancelConsumer(ConsumerKey(CHANNELS[rest[0]], rest[1]))
        if kind == "resume":
            return c.ResumeConsumer(ConsumerKey(CHANNELS[rest[0]], rest[1]), rest[2])
        if kind == "resume dead":
            return c.ResumeConsumer(DEAD_LETTER_WORKER, rest[0])
        if kind == "rare":
            return self.rare(*rest)
        if kind == "time":
            return c.PassTime()
        if kind == "get":
            return c.GetMessage(CHANNELS[rest[0]], rest[1])
        channel = CHANNELS[rest[0]]
        return c.RegisterEnqueuer(channel) if kind == "register" else c.AddressDown(*down(rest))

    def publish(
        self, at: int, sizes: list[int], skew: int, heard: int, ttl: int | None
    ) -> c.FifoCommand:
        sender = self.model.senders.get(CHANNELS[at])
        if sender is None and not self.model.over(CHANNELS[at]):
            return c.RegisterEnqueuer(CHANNELS[at])
        next_seq = sender.next_seq if sender else 1
        first = max(1, next_seq + skew)
        return enqueue(CHANNELS[at], first, sizes, max(1, next_seq - heard), ttl)

    def rare(self, which: int, settings: QueueSettings) -> c.FifoCommand:
        channel = CHANNELS[which % len(CHANNELS)]
        if which == 0:
            return c.DeleteFifo(channel, if_empty=True, if_unused=True)
        if which == 1:
            return c.NodeRestarted(2, 2)
        if which == 2:
            return c.UseQueue()
        if which == 3:
            return c.Asked(channel, 7)
        if which == 4:
            return c.PurgeQueue(channel)
        single = self.model.settings.single_active_consumer
        return Configure(settings._replace(single_active_consumer=single))

    # -- what must hold

    def check(self, effects: list[FifoEffect]) -> None:
        model, member = self.model, self.member
        for each in (member, self.other):
            messages = each.messages
            assert (messages.count, messages.bytes) == model.figures()
            out = len(model.all()) - len(model.ready())
            assert messages.out == out
            assert each.rejects is model.rejects and each.is_deleted is model.deleted
        self.check_deliveries(effects)
        live = {
            (index, place)
            for index, ranges in member.live()
            for places in ranges
            for place in places
        }
        named = [index for index, _ in member.live()]
        assert named == sorted(set(named))
        assert live == {(message.entry, message.place) for message in model.all()}
        assert [*member.live()] == [*self.other.live()]
        assert member.released == (min(named) - 1 if named else self.index)
        came = {each for each in live if each[0] == self.index}
        assert live <= self.live | came, "what is not needed any more is never needed again"
        assert not live & set(model.gone)
        self.live = live
        assert member.due_ms == self.other.due_ms

    def check_deliveries(self, effects: list[FifoEffect]) -> None:
        """Nobody gets a message a second time that has not come back."""
        for effect in effects:
            parts: list[DeliveredPart] = []
            if isinstance(effect, FifoDelivered) and not effect.is_again:
                parts = effect.parts
            elif isinstance(effect, MessageGot) and effect.part is not None:
                parts = [effect.part]
            for part in parts:
                self.delivered.update((part.entry, place) for place in part.places)
        came_back = self.model.came_back
        assert all(count <= 1 + came_back[key] for key, count in self.delivered.items())


def down(rest: list[Any]) -> tuple[ActorAddress, bool]:
    return CHANNELS[rest[0]], rest[1]


def is_for(effect: FifoEffect, node: int) -> bool:
    """Tell whether that effect matters to the channels of this node."""
    if isinstance(effect, Enqueued):
        return effect.sender.node == node
    if isinstance(effect, FifoDelivered):
        return effect.is_again or effect.consumer.channel.node == node
    return not isinstance(effect, RowBegins) or effect.asker.node == node


def applied(
    member: Fifo, index: int, stamp: int, commands: list[c.FifoCommand]
) -> list[FifoEffect]:
    effects: list[FifoEffect] = []
    member.entered(index, stamp)
    for command in commands:
        member.apply(command, effects)
    member.entry_ended(effects)
    return effects
