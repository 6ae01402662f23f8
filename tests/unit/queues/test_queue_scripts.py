"""Goal: the classic queue does what the transcripts in tests/scripts/queue say.

They show its rules one by one. Messages are called 1, 2, 3 ... as they are published; `3*` is
message 3 marked as redelivered. Commands, each one turn of the queue:

    queue NAME [transient] [single-active] [max-priority=N] [delivery-limit=N]
                                            the last one named is meant when `on` is absent
    channel NAME [window=COST]
    consume TAG CHANNEL [on=QUEUE] [no-ack] [exclusive] [priority=N] [prefetch=N]
    publish N [on=QUEUE] [size=BYTES,...] [persistent] [confirm=FIRST] [priority=N]
    ack FIRST[-LAST] ... | requeue FIRST[-LAST] ...
    get CHANNEL [on=QUEUE] [no-ack]
    limit CHANNEL N                         basic.qos with global true
    flush CHANNEL                           the writer has sent all it had from this queue
    cancel TAG | down CHANNEL | purge | inspect | delete CHANNEL [if-unused] [if-empty]
    written                                 the store has synced what was written so far
    depth                                   all counters
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.flow.prefetch import Limiter, Prefetch, Resume
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.limits import DELIVERY_WINDOW
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
from support.transcripts import check, spans

from .carrying_out import carry_out, serve, settles
from .indices import new_index

SCRIPTS = Path(__file__).parents[2] / "scripts" / "queue"


class Channel:
    """A channel as queues see it: somebody to answer, with one limit and a window a queue."""

    def __init__(self, name: str, window: int) -> None:
        self.name = name
        self.actor = bystander()
        self.limiter = Limiter()
        self.window = window
        self.windows: dict[str, Outflow] = {}
        self.unwritten: dict[str, int] = {}


class Queue:
    """A queue and where each message that is out can be settled."""

    def __init__(
        self, name: str, durable: bool, scheduler: Scheduler, settings: QueueSettings
    ) -> None:
        self.name = name
        self.actor = Actor(scheduler)
        title = f"queue '{name}' in vhost '/'"
        self.machine = ClassicQueue(title, durable, self.actor, new_index(), 4096, settings)
        self.out: dict[int, tuple[int, int]] = {}
        self.receipts: list[Receipt] = []


class Interpreter:
    """Runs one transcript."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.keeper = GateKeeper(FakeClock())
        self.queues: dict[str, Queue] = {}
        self.channels: dict[str, Channel] = {}
        self.consumers: dict[str, tuple[Consumer, Queue]] = {}
        self.queue = ""
        self.published = 0

    def execute(self, line: str) -> str:
        words = line.split()
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        self.queue = options.pop("on", self.queue)
        lines: list[str] = getattr(self, f"do_{words[0]}")(plain, options)
        return "\n".join(lines + self.end_turns())

    def apply(self, command: Command, queue: Queue | None = None) -> list[str]:
        queue = queue or self.queues[self.queue]
        effects: list[Effect] = []
        carry_out(queue.machine, command, effects)
        return self.answered(queue, effects)

    def answered(self, queue: Queue, effects: list[Effect]) -> list[str]:
        queue.actor.schedule()
        return [self.shown(queue, e) for e in effects if not isinstance(e, Remove)]

    def end_turns(self) -> list[str]:
        lines: list[str] = []
        while self.scheduler.ready:
            actor = self.scheduler.ready.popleft()
            resumes = drain(actor)
            queue = next(queue for queue in self.queues.values() if queue.actor is actor)
            for resume in resumes:
                assert isinstance(resume, Resume)
                queue.machine.consumers.resume(resume.limiter)
            effects: list[Effect] = []
            serve(queue.machine, effects)
            lines += self.answered(queue, effects)
            others = [each for each in self.scheduler.ready if each is not actor]
            self.scheduler.ready.clear()
            for each in others:
                self.scheduler.ready.append(each)
            actor.scheduled = False
            for resume in resumes:
                assert isinstance(resume, Resume)
                resume.limiter.had_turn(actor)
        return lines

    def shown(self, queue: Queue, effect: Effect) -> str:
        if isinstance(effect, Deliver):
            return self.delivered(queue, effect)
        if isinstance(effect, Confirm):
            numbers = range(effect.first_seq, effect.first_seq + effect.count)
            return f"confirm {spans(list(numbers))}"
        if isinstance(effect, Write):
            if effect.receipt is not None:
                queue.receipts.append(effect.receipt)
            return f"write {len(effect.batch.contents)}"
        if isinstance(effect, Got):
            return self.got(queue, effect)
        if isinstance(effect, Consumed):
            return f"{effect.consumer.tag} consumes"
        if isinstance(effect, Cancelled):
            return f"{effect.consumer.tag} cancelled" + " by the broker" * effect.by_broker
        if isinstance(effect, Inspected):
            return f"{effect.ready} ready, {effect.consumers} consumers"
        if isinstance(effect, Purged):
            return f"purged {effect.count}"
        if isinstance(effect, Deleted):
            return f"deleted with {effect.count}"
        assert isinstance(effect, Refuse)
        return f"refused: {effect.code} {effect.text}"

    def delivered(self, queue: Queue, deliver: Deliver) -> str:
        numbers = [int.from_bytes(content[:8]) for content in deliver.contents]
        channel = next(c for c in self.channels.values() if c.actor is deliver.channel)
        channel.unwritten[queue.name] = channel.unwritten.get(queue.name, 0) + deliver.cost
        if deliver.run:
            queue.out |= {number: (deliver.run, i) for i, number in enumerate(numbers)}
        words = spans(numbers)
        if deliver.redelivered:
            words = " ".join(f"{word}*" for word in words.split())
        if deliver.returned:
            words += f" returned {' '.join(map(str, deliver.returned.counts))}"
        of = f" of {queue.name}" * (len(self.queues) > 1)
        return f"{deliver.consumer.tag} <- {words}{of}"

    def got(self, queue: Queue, got: Got) -> str:
        if got.content is None:
            return "got nothing"
        number = int.from_bytes(got.content[:8])
        if got.run:
            queue.out[number] = (got.run, 0)
        returned = f" returned {got.returned.counts[0]}" if got.returned else ""
        return f"got {number}{'*' * got.redelivered}{returned}, {got.ready} left"

    def do_queue(self, plain: list[str], options: dict[str, str]) -> list[str]:
        [self.queue] = plain[:1]
        numbers = {key.replace("-", "_"): int(value) for key, value in options.items()}
        settings = QueueSettings(single_active_consumer="single-active" in plain, **numbers)
        durable = "transient" not in plain
        self.queues[self.queue] = Queue(self.queue, durable, self.scheduler, settings)
        return []

    def do_channel(self, plain: list[str], options: dict[str, str]) -> list[str]:
        window = int(options.get("window", DELIVERY_WINDOW))
        self.channels[plain[0]] = Channel(plain[0], window)
        return []

    def do_consume(self, plain: list[str], options: dict[str, str]) -> list[str]:
        tag, name, *flags = plain
        channel = self.channels[name]
        queue = self.queues[self.queue]
        window = channel.windows.get(queue.name)
        if window is None:
            spec = LinkSpec(channel.window, 1)
            window = channel.windows[queue.name] = Outflow(self.keeper, name, spec)
        consumer = Consumer(
            channel.actor,
            tag,
            "no-ack" in flags,
            "exclusive" in flags,
            int(options.get("priority", 0)),
            Prefetch(int(options.get("prefetch", 0))),
            channel.limiter,
            window,
            {},
        )
        self.consumers[tag] = (consumer, queue)
        return self.apply(Consume(consumer))

    def do_publish(self, plain: list[str], options: dict[str, str]) -> list[str]:
        sizes = [int(size) for size in options.get("size", "8").split(",")]
        contents: list[bytes] = []
        for index in range(int(plain[0])):
            self.published += 1
            contents.append(self.published.to_bytes(8).ljust(sizes[index % len(sizes)], b"."))
        batch = batch_of(
            contents,
            b"\x00\x01q",
            same_size=len(sizes) == 1,
            persistent="persistent" in plain,
            priority=int(options.get("priority", 0)),
        )
        first_seq = int(options.get("confirm", 0))
        return self.apply(Publish(batch, Link(bystander()), first_seq or 1, first_seq > 0))

    def do_ack(self, plain: list[str], options: dict[str, str], requeue: bool = False) -> list[str]:
        queue = self.queues[self.queue]
        parts: list[tuple[int, int, int]] = []
        for word in plain:
            first, _, last = word.partition("-")
            for number in range(int(first), int(last or first) + 1):
                run, index = queue.out.pop(number)
                parts.append((run, index, index + 1))
        commands = settles(queue.machine, parts, requeue)
        return [line for command in commands for line in self.apply(command)]

    def do_requeue(self, plain: list[str], options: dict[str, str]) -> list[str]:
        return self.do_ack(plain, options, True)

    def do_get(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(Get(self.channels[plain[0]].actor, "no-ack" in plain))

    def do_limit(self, plain: list[str], _: dict[str, str]) -> list[str]:
        self.channels[plain[0]].limiter.set_limit(int(plain[1]))
        return []

    def do_flush(self, plain: list[str], _: dict[str, str]) -> list[str]:
        channel = self.channels[plain[0]]
        window = channel.windows[self.queue]
        window.refill(channel.unwritten.pop(self.queue, 0))
        self.queues[self.queue].machine.consumers.wake(window)
        self.queues[self.queue].actor.schedule()
        return []

    def do_cancel(self, plain: list[str], _: dict[str, str]) -> list[str]:
        consumer, queue = self.consumers[plain[0]]
        return self.apply(Cancel(consumer), queue)

    def do_down(self, plain: list[str], _: dict[str, str]) -> list[str]:
        channel = self.channels.pop(plain[0])
        return [line for queue in self.queues.values() for line in self.downed(queue, channel)]

    def downed(self, queue: Queue, channel: Channel) -> list[str]:
        gone = {n for n, run in queue.machine.unacked_runs.items() if run.channel is channel.actor}
        queue.out = {number: at for number, at in queue.out.items() if at[0] not in gone}
        return self.apply(Down(channel.actor), queue)

    def do_purge(self, _: list[str], __: dict[str, str]) -> list[str]:
        return self.apply(Purge(bystander()))

    def do_inspect(self, _: list[str], __: dict[str, str]) -> list[str]:
        return self.apply(Inspect(bystander()))

    def do_delete(self, plain: list[str], _: dict[str, str]) -> list[str]:
        actor = self.channels[plain[0]].actor
        return self.apply(Delete(actor, "if-unused" in plain, "if-empty" in plain))

    def do_written(self, _: list[str], __: dict[str, str]) -> list[str]:
        queue = self.queues[self.queue]
        receipts = queue.receipts
        queue.receipts = []
        effects: list[Effect] = []
        queue.machine.written(receipts, effects)
        return self.answered(queue, effects)

    def do_depth(self, _: list[str], __: dict[str, str]) -> list[str]:
        depth = self.queues[self.queue].machine.depth
        return [
            f"ready {depth.ready} ({depth.ready_bytes} bytes), "
            f"unacked {depth.unacked} ({depth.unacked_bytes} bytes), "
            f"persistent {depth.persistent}, footprint {depth.footprint}"
        ]


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
