"""Goal: a quorum queue does what the transcripts in tests/scripts/quorum say.

They show its rules one by one. Channels and consumers have names; a message is called by its entry
and its place in it: `4.0`; `4.0*` is redelivered, `4.0*2` has come back twice in a way that counts.
Each command is one entry of the log, the first has the index 1:

    queue [single-active] [expires-ms=N] [message-ttl-ms=N] [max-length=N] [max-length-bytes=N]
          [reject-publish] [delivery-limit=N] [dead-letters=most|least]
    register WHO | publish WHO FIRST COUNT [size=N] [ttl=N] [heard=N]
    consume TAG WHO [prefetch=N] [priority=N] [exclusive] | cancel TAG | resume TAG ID
    ack TAG FIRST[-LAST] ... | requeue TAG FIRST[-LAST] ... | reject TAG FIRST[-LAST] ...
    get WHO [no-ack] | purge WHO | delete WHO [if-unused] [if-empty]
    down WHO [lost] | restarted NODE LIFE | use | configure [as queue]
    time N                            N milliseconds later
    state                             counts, what the log is needed for, when it is due again
    snapshot                          become what a snapshot says

The tag of dead letters that must arrive is `dlx`, that of what a channel got one by one `WHO/get`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.commands import ACK, REJECT, REQUEUE, Configure
from sluicemq.queues.quorum import commands as c
from sluicemq.queues.quorum import effects as e
from sluicemq.queues.quorum.commands import DEAD_LETTER_WORKER, UNSENT, ConsumerKey
from sluicemq.queues.quorum.fifo import Fifo
from sluicemq.queues.settings import QueueSettings
from support.transcripts import check, spans

from .fifo_model import snake

SCRIPTS = Path(__file__).parents[2] / "scripts" / "quorum"
START_MS = 1000
STRATEGIES = {"most": "at-most-once", "least": "at-least-once"}


def settings_of(plain: list[str], options: dict[str, str]) -> QueueSettings:
    strategy = options.pop("dead-letters", None)
    return QueueSettings(
        single_active_consumer="single-active" in plain,
        overflow="reject-publish" if "reject-publish" in plain else "drop-head",
        dead_letter_exchange="dlx" if strategy else None,
        dead_letter_strategy=STRATEGIES[strategy or "most"],
        **{key.replace("-", "_"): int(value) for key, value in options.items()},
    )


def ids_of(words: list[str]) -> tuple[tuple[int, int], ...]:
    ends = [word.partition("-") for word in words]
    return tuple((int(first), int(last or first) + 1) for first, _, last in ends)


class Interpreter:
    """Runs one transcript."""

    def __init__(self) -> None:
        self.fifo = Fifo("queue 'q'")
        self.index = 0
        self.now_ms = START_MS
        self.names: dict[ActorAddress, str] = {}
        self.keys: dict[str, ConsumerKey] = {"dlx": DEAD_LETTER_WORKER}

    def execute(self, line: str) -> str:
        word, *words = line.split()
        options = dict(each.split("=", 1) for each in words if "=" in each)
        plain = [each for each in words if "=" not in each]
        lines: list[str] = getattr(self, f"do_{word}")(plain, options)
        return "\n".join(lines)

    def apply(self, command: c.FifoCommand) -> list[str]:
        self.index += 1
        self.fifo.entered(self.index, self.now_ms)
        effects: list[e.FifoEffect] = []
        self.fifo.apply(command, effects)
        self.fifo.entry_ended(effects)
        return [self.shown(effect) for effect in effects]

    def who(self, name: str) -> ActorAddress:
        """Names are letters; one with a number behind it is of that node: c2 of node 2."""
        node = int(name[-1]) if name[-1].isdigit() else 1
        address = ActorAddress(node, 1, sum(map(ord, name)))
        self.names[address] = name
        self.keys[f"{name}/get"] = ConsumerKey(address, "")
        return address

    # -- effects

    def shown(self, effect: e.FifoEffect) -> str:
        method = getattr(self, f"show_{snake(type(effect))}")
        text: str = method(effect)
        return text

    def of(self, key: ConsumerKey) -> str:
        return key.tag or f"{self.names[key.channel]}/get"

    def run(self, part: e.DeliveredPart) -> str:
        mark = "*" * part.redelivered + str(part.returns or "")
        names = " ".join(f"{part.entry}.{place}{mark}" for place in part.places)
        if part.first_id < 0:
            return names
        return f"{names} as {spans([*range(part.first_id, part.first_id + len(part.places))])}"

    def show_enqueuer_registered(self, effect: e.EnqueuerRegistered) -> str:
        full = ", and is told that the queue is full" * effect.rejects
        if not effect.next_seq:
            return f"{self.names[effect.sender]} has ended"
        return f"{self.names[effect.sender]} begins with {effect.next_seq}{full}"

    def numbers(self, effect: e.Enqueued | e.EnqueueRejected) -> str:
        return spans([*range(effect.first_seq, effect.first_seq + effect.messages)])

    def show_enqueued(self, effect: e.Enqueued) -> str:
        return f"{self.names[effect.sender]}: taken {self.numbers(effect)}"

    def show_enqueue_rejected(self, effect: e.EnqueueRejected) -> str:
        return f"{self.names[effect.sender]}: rejected {self.numbers(effect)}"

    def show_enqueue_refused(self, effect: e.EnqueueRefused) -> str:
        why = f"expects {effect.expected_seq}" if effect.expected_seq else "knows no such sender"
        return f"{self.names[effect.sender]}: {effect.first_seq} refused, the queue {why}"

    def show_publish_status(self, effect: e.PublishStatus) -> str:
        return "the queue rejects" if effect.rejects else "the queue takes messages again"

    def show_consumer_added(self, effect: e.ConsumerAdded) -> str:
        return f"{self.of(effect.consumer)} consumes" + ", and waits" * (not effect.is_active)

    def show_consumer_active(self, effect: e.ConsumerActive) -> str:
        return f"{self.of(effect.consumer)} is active"

    def show_consumer_gone(self, effect: e.ConsumerGone) -> str:
        return f"{self.of(effect.consumer)} gone" + " by the broker" * effect.by_broker

    def show_fifo_delivered(self, effect: e.FifoDelivered) -> str:
        runs = ", ".join(map(self.run, effect.parts))
        return f"{self.of(effect.consumer)} <- {runs}" + " again" * effect.is_again

    def show_message_got(self, effect: e.MessageGot) -> str:
        what = "nothing" if effect.part is None else self.run(effect.part)
        return f"{self.names[effect.channel]} got {what}, {effect.ready} left"

    def show_queue_purged(self, effect: e.QueuePurged) -> str:
        return f"purged {effect.messages}"

    def show_fifo_deleted(self, effect: e.FifoDeleted) -> str:
        return f"deleted with {effect.messages}" + " by itself" * (effect.channel is None)

    def show_fifo_refused(self, effect: e.FifoRefused) -> str:
        return f"{self.names[effect.channel]}: {effect.code} {effect.text}"

    def show_dead_lettered(self, effect: e.DeadLettered) -> str:
        parts = [
            f"{self.run(e.DeliveredPart(p.first_id, p.entry, p.places, p.returns, False))} "
            f"({p.reason})"
            for p in effect.parts
        ]
        kept = " and keeps" * effect.must_arrive
        return f"dead-letters{kept} {', '.join(parts)}" + " again" * effect.is_again

    # -- commands

    def do_queue(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.fifo = Fifo("queue 'q'", settings_of(plain, options))
        return []

    def do_configure(self, plain: list[str], options: dict[str, str]) -> list[str]:
        return self.apply(Configure(settings_of(plain, options)))

    def do_register(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.RegisterEnqueuer(self.who(plain[0])))

    def do_publish(self, plain: list[str], options: dict[str, str]) -> list[str]:
        who, first, count = plain
        sizes = [int(size) for size in options.get("size", "10").split(",")]
        size, many = sizes[0], sizes if len(sizes) > 1 else None
        ttl = int(options["ttl"]) if "ttl" in options else None
        heard = int(options.get("heard", "1"))
        sender = self.who(who)
        return self.apply(c.Enqueue(sender, int(first), int(count), size, many, ttl, heard))

    def do_consume(self, plain: list[str], options: dict[str, str]) -> list[str]:
        tag, name, *flags = plain
        key = self.keys[tag] = ConsumerKey(self.who(name), tag)
        prefetch, priority = int(options.get("prefetch", 0)), int(options.get("priority", 0))
        return self.apply(c.AddConsumer(key, prefetch, priority, "exclusive" in flags))

    def do_cancel(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.CancelConsumer(self.keys[plain[0]]))

    def do_resume(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.ResumeConsumer(self.keys[plain[0]], int(plain[1])))

    def settle(self, plain: list[str], outcome: int) -> list[str]:
        tag, *words = plain
        return self.apply(c.SettleDelivered(self.keys[tag], ids_of(words), outcome))

    def do_ack(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.settle(plain, ACK)

    def do_requeue(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.settle(plain, REQUEUE)

    def do_unsent(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.settle(plain, UNSENT)

    def do_reject(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.settle(plain, REJECT)

    def do_get(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.GetMessage(self.who(plain[0]), "no-ack" in plain))

    def do_purge(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.PurgeQueue(self.who(plain[0])))

    def do_delete(self, plain: list[str], _: dict[str, str]) -> list[str]:
        who, *flags = plain
        return self.apply(c.DeleteFifo(self.who(who), "if-unused" in flags, "if-empty" in flags))

    def do_down(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.AddressDown(self.who(plain[0]), "lost" in plain))

    def do_restarted(self, plain: list[str], _: dict[str, str]) -> list[str]:
        return self.apply(c.NodeRestarted(int(plain[0]), int(plain[1])))

    def do_use(self, _: list[str], __: dict[str, str]) -> list[str]:
        return self.apply(c.UseQueue())

    def do_time(self, plain: list[str], _: dict[str, str]) -> list[str]:
        self.now_ms += int(plain[0])
        return self.apply(c.PassTime())

    def do_state(self, _: list[str], __: dict[str, str]) -> list[str]:
        fifo = self.fifo
        messages = fifo.messages
        needed = " ".join(
            f"{index}.{each.start}" + f"-{each.stop - 1}" * (len(each) > 1)
            for index, ranges in fifo.live()
            for each in ranges
        )
        due = "" if fifo.due_ms is None else f", due in {fifo.due_ms - fifo.now_ms} ms"
        return [
            f"ready {messages.count} ({messages.bytes} bytes), out {messages.out} "
            f"({messages.out_bytes} bytes){due}",
            f"needs {needed or 'nothing'}, released {fifo.released} of {fifo.index}",
        ]

    def do_snapshot(self, _: list[str], __: dict[str, str]) -> list[str]:
        pieces = [*self.fifo.snapshot()]
        self.fifo = Fifo("queue 'q'")
        self.fifo.restore(pieces)
        assert [*self.fifo.snapshot()] == pieces
        return []


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
