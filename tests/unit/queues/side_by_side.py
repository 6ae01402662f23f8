"""Queues and their models, told the same and compared: effects, counters, windows, limits."""

from __future__ import annotations

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch, Resume
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import (
    Cancel,
    Command,
    Consume,
    Delete,
    Down,
    Get,
    Inspect,
    Publish,
    Purge,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import (
    Cancelled,
    Confirm,
    Consumed,
    Deleted,
    Deliver,
    Effect,
    Got,
    Inspected,
    Purged,
    Receipt,
    Refuse,
    Remove,
    Write,
)
from sluicemq.queues.settings import QueueSettings
from support.batches import batch_of
from support.fakes import FakeClock, bystander, drain

from .carrying_out import carry_out, serve, settles
from .indices import new_index
from .queue_model import Expected, ModelChannel, ModelConsumer, ModelQueue

UNKNOWN_LOT = 10**6


def turn(position: int) -> tuple[int, int]:
    """Sort key: higher priorities come first."""
    return -(position >> 48), position


Channel = tuple[Actor, Limiter, ModelChannel]


class Pair:
    """A queue and its model, and what the queue has given out."""

    def __init__(self, model: ModelQueue, scheduler: Scheduler) -> None:
        self.model = model
        self.actor = Actor(scheduler)
        settings = QueueSettings(
            single_active_consumer=model.single_active,
            max_priority=model.highest,
            delivery_limit=model.delivery_limit,
        )
        self.real = ClassicQueue(
            model.title, model.durable, self.actor, new_index(), 4096, settings
        )
        self.windows: dict[str, Outflow] = {}
        self.unwritten: list[tuple[str, int]] = []
        self.receipts: list[Receipt] = []
        self.unacked_runs: dict[int, list[int]] = {}
        """The positions in each run."""
        self.places: dict[int, tuple[int, int]] = {}
        """(run, index) in which a position was given out last."""
        self.positions: dict[bytes, int] = {}
        self.removed: set[int] = set()
        """Positions of which the disk was told that they are gone."""


class SideBySide:
    """Two queues, three channels with consumers on both. Each command is told to a queue and to
    its model. With `long_turns` a queue serves at `end_turns` only, else after each command.
    `single_active` is said of the transient queue, the others of the durable one.
    """

    def __init__(
        self,
        window: int,
        long_turns: bool,
        single_active: bool,
        highest: int,
        delivery_limit: int | None,
    ) -> None:
        self.sound = True
        """False: something was found; the rest means nothing."""
        self.window = window
        self.long_turns = long_turns
        self.single_active = single_active
        self.highest = highest
        self.delivery_limit = delivery_limit
        self.scheduler = Scheduler()
        self.keeper = GateKeeper(FakeClock())
        self.serial = 0
        self.consumers: dict[str, tuple[Consumer, ModelConsumer, Pair]] = {}
        self.of_limiter: dict[Limiter, ModelChannel] = {}
        self.of_actor: dict[Actor, Pair] = {}
        self.channels = [self.new_channel() for _ in range(3)]
        self.pairs = {name: self.new_queue(name) for name in ("durable", "transient")}

    def new_channel(self) -> Channel:
        self.serial += 1
        limiter = Limiter()
        model = self.of_limiter[limiter] = ModelChannel(f"channel {self.serial}", {})
        return bystander(), limiter, model

    def new_queue(self, name: str) -> Pair:
        self.serial += 1
        title = f"queue '{name}' in vhost '/'"
        model = ModelQueue(f"{name} {self.serial}", name == "durable", title)
        model.single_active = self.single_active and not model.durable
        if model.durable:
            model.highest = self.highest
            model.delivery_limit = self.delivery_limit
        pair = Pair(model, self.scheduler)
        self.of_actor[pair.actor] = pair
        for channel in self.channels:
            self.open_window(pair, channel)
        return pair

    def open_window(self, pair: Pair, channel: Channel) -> None:
        _, _, model = channel
        spec = LinkSpec(self.window, 1)
        pair.windows[model.name] = Outflow(self.keeper, model.name, spec)
        model.windows[pair.model.name] = self.window

    # -- what is compared

    def apply(self, pair: Pair, command: Command, expected: list[Expected]) -> None:
        """One command; the queue actor serves at the end of its turn."""
        self.sound = False
        effects: list[Effect] = []
        carry_out(pair.real, command, effects)
        assert self.shown(pair, effects) == expected
        self.sound = True
        pair.actor.schedule()
        if not self.long_turns:
            self.end_turns()

    def end_turns(self) -> None:
        """Serve where there was a command or a word from a limiter; answer the limiters."""
        while self.scheduler.ready:
            actor = self.scheduler.ready.popleft()
            pair = self.of_actor[actor]
            resumed = []
            for message in drain(actor):
                assert isinstance(message, Resume)
                pair.real.consumers.resume(message.limiter)
                pair.model.resume(self.of_limiter[message.limiter])
                resumed.append(message)
            self.serve(pair)
            for message in resumed:
                message.limiter.had_turn(actor)
                channel = self.of_limiter[message.limiter]
                assert channel.asked == pair.model.name
                channel.asked = ""
                channel.ask()

    def serve(self, pair: Pair) -> None:
        self.sound = False
        effects: list[Effect] = []
        serve(pair.real, effects)
        assert self.shown(pair, effects) == pair.model.serve()
        self.sound = True

    def shown(self, pair: Pair, effects: list[Effect]) -> list[Expected]:
        """Effects as the model says them; deliveries one by one, in the order of the queue."""
        shown: list[Expected] = []
        delivered: list[Expected] = []
        removals = [effect for effect in effects if isinstance(effect, Remove)]
        effects = [effect for effect in effects if not isinstance(effect, Remove)]
        for removal in removals:
            assert removal.durable
            assert removal.ids is None
            assert pair.removed.isdisjoint(removal.positions), "removed twice"
            pair.removed.update(removal.positions)
        for effect in effects:
            if isinstance(effect, Deliver):
                delivered += self.delivered(pair, effect)
            else:
                shown.append(self.shown_one(pair, effect))
        kinds = [isinstance(effect, Deliver) for effect in effects]
        assert kinds == sorted(kinds, reverse=True), "deliveries come first"
        delivered.sort(key=lambda entry: turn(pair.positions[entry[2]]))  # type: ignore[index]
        return delivered + shown

    def delivered(self, pair: Pair, deliver: Deliver) -> list[Expected]:
        consumer, model, of = self.consumers[deliver.consumer.tag]
        assert deliver.consumer is consumer
        assert deliver.channel is consumer.channel
        assert of is pair
        positions = [pair.positions[content] for content in deliver.contents]
        assert positions == sorted(set(positions))
        assert deliver.cost == sum(1 + len(content) // 4096 for content in deliver.contents)
        pair.unwritten.append((model.channel.name, deliver.cost))
        self.remember(pair, deliver.run, positions)
        assert (deliver.run == 0) == consumer.no_ack
        counts = deliver.returned.counts if deliver.returned else [0] * len(deliver.contents)
        return [
            (
                "deliver",
                consumer.tag,
                content,
                deliver.traits.envelope,
                deliver.traits.channel_number,
                deliver.redelivered,
                returns,
                deliver.run != 0,
            )
            for content, returns in zip(deliver.contents, counts, strict=True)
        ]

    def remember(self, pair: Pair, run: int, positions: list[int]) -> None:
        if run:
            assert run not in pair.unacked_runs
            pair.unacked_runs[run] = positions
            pair.places |= {position: (run, index) for index, position in enumerate(positions)}

    def shown_one(self, pair: Pair, effect: Effect) -> Expected:
        if isinstance(effect, Confirm):
            return ("confirm", effect.channel, effect.first_seq, effect.count)
        if isinstance(effect, Write):
            if effect.receipt is not None:
                pair.receipts.append(effect.receipt)
            return ("write", effect.batch, effect.receipt is not None)
        if isinstance(effect, Consumed):
            return ("consumed", effect.consumer.tag)
        if isinstance(effect, Cancelled):
            assert effect.consumer.cancelled
            return ("cancelled", effect.consumer.tag, effect.by_broker)
        if isinstance(effect, Got):
            name = next(model.name for actor, _, model in self.channels if actor is effect.channel)
            if effect.content is None:
                return ("got", name, None, 0)
            self.remember(pair, effect.run, [pair.positions[effect.content]])
            traits = effect.traits
            seen = (effect.content, traits.envelope, traits.channel_number, effect.redelivered)
            (returns,) = effect.returned.counts if effect.returned else [0]
            return ("got", name, (*seen, returns, effect.run != 0), effect.ready)
        if isinstance(effect, Inspected):
            return ("inspected", effect.ready, effect.consumers)
        if isinstance(effect, Purged):
            return ("purged", effect.count)
        if isinstance(effect, Deleted):
            return ("deleted", effect.count)
        assert isinstance(effect, Refuse)
        return ("refuse", effect.code, effect.text)

    def check(self) -> None:
        """What must hold after every command."""
        self.sound = False
        self.counters_are_right()
        self.limits_are_kept()
        self.nobody_waits_for_nothing()
        self.sound = True

    def counters_are_right(self) -> None:
        for pair in self.pairs.values():
            depth = pair.real.depth
            assert {name: getattr(depth, name) for name in depth.__slots__} == pair.model.depth()
            chunks = [*pair.real.backing.in_ram()]
            assert sum(chunk.left() for chunk in chunks) == depth.ready
            assert sum(chunk.size() for chunk in chunks) == depth.ready_bytes
            assert sum(chunk.footprint() for chunk in chunks) <= depth.footprint
            assert pair.real.backing.length() == depth.ready
            assert pair.removed == pair.model.removed()

    def limits_are_kept(self) -> None:
        for _, limiter, model in self.channels:
            assert limiter.unacked == model.unacked
            asked = self.of_actor[limiter.invited].model.name if limiter.invited else ""
            assert asked == model.asked
            for pair in self.pairs.values():
                assert pair.windows[model.name].credit == model.windows[pair.model.name]
        for consumer, model_consumer, pair in self.consumers.values():
            assert consumer.no_ack or consumer.prefetch.unacked == model_consumer.unacked
            assert consumer.active == (model_consumer in pair.model.consumers())

    def nobody_waits_for_nothing(self) -> None:
        """Between turns a consumer with room and a ready message do not stand side by side."""
        if not self.scheduler.ready:
            assert all(pair.model.is_idle() for pair in self.pairs.values())

    # -- commands

    def publish(
        self,
        name: str,
        count: int,
        sizes: list[int],
        says_same_size: bool,
        kind: tuple[bytes, int, bool, int],
        confirming: bool,
        priority: int,
    ) -> None:
        pair = self.pairs[name]
        if count > 6:
            sizes = [8]
        contents = []
        for index in range(count):
            self.serial += 1
            contents.append(self.serial.to_bytes(8).ljust(sizes[index % len(sizes)], b"."))
            pair.positions[contents[-1]] = pair.model.next_position(priority) + index
        envelope, channel_number, persistent, copies = kind
        same_size = says_same_size and len(set(map(len, contents))) == 1
        batch = batch_of(
            contents,
            envelope,
            same_size=same_size,
            persistent=persistent,
            channel_number=channel_number,
            copies=copies,
            priority=priority,
        )
        sender = self.channels[0][0]
        expected: list[Expected] = []
        if persistent and name == "durable" and not pair.model.deleted:
            expected.append(("write", batch, confirming))
        elif confirming:
            expected.append(("confirm", sender, self.serial, count))
        pair.model.publish(contents, kind, priority)
        publish = Publish(batch, Link(sender), self.serial, confirming)
        self.apply(pair, publish, expected)

    def consume(
        self, name: str, channel: int, no_ack: bool, exclusive: bool, priority: int, prefetch: int
    ) -> None:
        pair = self.pairs[name]
        actor, limiter, model_channel = self.channels[channel]
        self.serial += 1
        tag = f"c{self.serial}"
        window = pair.windows[model_channel.name]
        consumer = Consumer(
            actor, tag, no_ack, exclusive, priority, Prefetch(prefetch), limiter, window, {}
        )
        model = ModelConsumer(tag, model_channel, no_ack, exclusive, priority, prefetch)
        title = pair.model.title
        expected: Expected = ("consumed", tag)
        if pair.model.deleted:
            expected = ("refuse", 404, f"no {title}")
        elif pair.model.add(model):
            self.consumers[tag] = (consumer, model, pair)
        else:
            expected = ("refuse", 403, f"{title} in exclusive use")
        self.apply(pair, Consume(consumer), [expected])

    def cancel(self, choice: int) -> None:
        tags = list(self.consumers)
        tag = tags[choice % len(tags)]
        consumer, model, pair = self.consumers[tag]
        if not consumer.cancelled:
            pair.model.remove(model)
        self.apply(pair, Cancel(consumer), [("cancelled", tag, False)])

    def get(self, name: str, channel: int, no_ack: bool) -> None:
        pair = self.pairs[name]
        actor, _, model_channel = self.channels[channel]
        expected = [*pair.model.serve(), pair.model.get(model_channel, no_ack)]
        if pair.model.deleted:
            expected = [("refuse", 404, f"no {pair.model.title}")]
        self.apply(pair, Get(actor, no_ack), expected)

    def settle(
        self, name: str, picks: list[tuple[int, int, int]], requeue: bool, stray: bool
    ) -> None:
        """Parts of runs, link by link, in any order; once in a while a run nobody knows."""
        pair = self.pairs[name]
        parts = [(UNKNOWN_LOT, 0, 1)] if stray else []
        positions: list[int] = []
        for pick in picks:
            part = self.open_part(pair, pick, positions)
            if part is not None:
                parts.append(part)
                positions += pair.unacked_runs[part[0]][part[1] : part[2]]
        for command in settles(pair.real, parts, requeue):
            known = [part for part in command.parts if part[0] != UNKNOWN_LOT]
            these = [at for run, start, end in known for at in pair.unacked_runs[run][start:end]]
            pair.model.settle(these, requeue)
            for _, _, model in self.channels:
                model.ask()
            self.apply(pair, command, [])

    def open_part(
        self, pair: Pair, pick: tuple[int, int, int], taken: list[int]
    ) -> tuple[int, int, int] | None:
        """A stretch of a run of which everything is out, and nothing in `taken`."""
        is_open = sorted(pair.model.out.keys() - taken)
        if not is_open:
            return None
        nth, back, more = pick
        run, index = pair.places[is_open[nth % len(is_open)]]
        positions = pair.unacked_runs[run]
        start = max(0, index - back)
        while any(
            position not in is_open or pair.places[position][0] != run
            for position in positions[start : index + 1]
        ):
            start += 1
        end = index + 1
        while end < len(positions) and end <= index + more:
            if positions[end] not in is_open or pair.places[positions[end]][0] != run:
                break
            end += 1
        return (run, start, end)

    def flush(self, name: str, choice: int) -> None:
        """The writer has sent the oldest deliveries; their cost comes back."""
        pair = self.pairs[name]
        count = 1 + choice
        for channel, cost in pair.unwritten[:count]:
            window = pair.windows[channel]
            window.refill(cost)
            pair.real.consumers.wake(window)
            model = next((m for _, _, m in self.channels if m.name == channel), None)
            if model is not None:
                model.windows[pair.model.name] += cost
                pair.model.wake(model)
        del pair.unwritten[:count]
        pair.actor.schedule()
        self.end_turns()

    def qos_global(self, channel: int, limit: int) -> None:
        _, limiter, model = self.channels[channel]
        limiter.set_limit(limit)
        model.limit = limit
        model.ask()
        self.end_turns()

    def down(self, channel: int) -> None:
        """A channel dies; both queues hear of it. Another one opens."""
        actor, _, model = self.channels[channel]
        for pair in self.pairs.values():
            pair.model.down(model)
            self.apply(pair, Down(actor), [])
        self.channels[channel] = self.new_channel()
        for pair in self.pairs.values():
            self.open_window(pair, self.channels[channel])

    def written(self, name: str, count: int) -> None:
        pair = self.pairs[name]
        receipts = pair.receipts[: 1 + count]
        del pair.receipts[: 1 + count]
        expected: list[Expected] = [
            ("confirm", receipt.link.sender, receipt.first_seq, receipt.count)
            for receipt in receipts
        ]
        effects: list[Effect] = []
        pair.real.written(receipts, effects)
        assert self.shown(pair, effects) == expected
        pair.actor.schedule()
        if not self.long_turns:
            self.end_turns()

    def inspect(self, name: str) -> None:
        pair = self.pairs[name]
        served = pair.model.serve()
        depth = pair.model.depth()
        expected = ("inspected", depth["ready"], depth["consumers"])
        self.apply(pair, Inspect(self.channels[0][0]), [*served, expected])

    def purge(self, name: str) -> None:
        pair = self.pairs[name]
        served = pair.model.serve()
        count = len(pair.model.ready)
        pair.model.ready.clear()
        self.apply(pair, Purge(self.channels[0][0]), [*served, ("purged", count)])

    def delete(self, name: str, if_unused: bool, if_empty: bool, by_broker: bool) -> None:
        pair = self.pairs[name]
        model = pair.model
        expected = model.serve()
        consumers = sorted([*model.members, *model.waiting], key=lambda one: int(one.name[1:]))
        unmet = "in use" if if_unused and consumers else ""
        unmet = unmet or ("not empty" if if_empty and model.ready else "")
        if unmet and not by_broker:
            expected.append(("refuse", 406, f"{model.title} {unmet}"))
        elif not unmet:
            expected += [("cancelled", consumer.name, True) for consumer in consumers]
            expected.append(("deleted", len(model.ready)))
            model.ready.clear()
            for some in (model.members, model.rings, model.holding, model.lines, model.waiting):
                some.clear()
            model.deleted = True
        channel = None if by_broker else self.channels[0][0]
        self.apply(pair, Delete(channel, if_unused, if_empty), expected)

    def declare_again(self) -> None:
        """Under the same name, once nobody holds anything of the old one."""
        for name, pair in self.pairs.items():
            if pair.model.deleted and not pair.model.out:
                self.pairs[name] = self.new_queue(name)

    def settle_all(self) -> None:
        """Everything acknowledged: nothing may be left in the counters."""
        self.end_turns()
        for pair in self.pairs.values():
            while (part := self.open_part(pair, (0, 0, 9999), [])) is not None:
                pair.model.settle(pair.unacked_runs[part[0]][part[1] : part[2]], False)
                for _, _, model in self.channels:
                    model.ask()
                for command in settles(pair.real, [part], False):
                    self.apply(pair, command, [])
            for _, _, model in self.channels:
                model.windows[pair.model.name] = -1
                pair.windows[model.name].credit = -1
                pair.windows[model.name].shut()
            pair.model.ready.clear()
            effects: list[Effect] = []
            carry_out(pair.real, Purge(bystander()), effects)
            assert pair.real.depth.footprint == pair.real.depth.persistent == 0
            assert pair.real.unacked_runs == {}
