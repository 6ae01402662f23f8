"""Random scripts: what is asked. What differs on purpose is not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

SHORT_MS = 10
"""A life that ends within a step of a hurried script."""
LONG_MS = 3_600_000
STEPS = (6, 30)
QUEUES = 4
EXCHANGES = 3
CONSUMERS = 3
CHANNELS = ("confirm", "plain", "tx", "stranger")
"""Modes of the channels; the stranger is one of another connection."""
KEYS = ("a", "a.b", "b", "a.b.c", "")
PATTERNS = ("#", "a.*", "*.b.#", "a", "", "*", "#.c")
MATCHING = (
    {"x-match": "all", "h": 1},
    {"x-match": "any", "h": 1, "g": "x"},
    {"h": 1, "g": "x"},
    {"x-match": "any-with-x", "x-h": 2},
    {},
)
HEADERS: tuple[dict[str, Any] | None, ...] = (
    None,
    None,
    {},
    {"h": 1},
    {"g": "x", "list": [1, "two", {"three": None}], "flag": True},
    {"h": 1, "g": "y", "x-h": 2},
)
POLICIES: dict[str, tuple[str, str, str]] = {
    "len2": ("^len2", "queues", '{"max-length": 2}'),
    "len3": ("^len3", "queues", '{"max-length": 3, "dead-letter-exchange": "amq.fanout"}'),
    "alt": ("^alt", "exchanges", '{"alternate-exchange": "amq.fanout"}'),
}
"""Names of queues and exchanges begin with the name of the policy they shall have."""

Step = tuple[str, dict[str, Any]]
"""What is done, with which arguments. `@` in a name stands for the script's own prefix."""


class Writer:
    """Writes one script. With `is_scattered` each classic queue lives on a node that chance
    chooses."""

    def __init__(self, seed: int, is_scattered: bool = False) -> None:
        self.dice = Random(seed)
        self.is_scattered = is_scattered
        dice = self.dice
        self.hurried = dice.random() < 0.1
        self.short = (0, SHORT_MS) if self.hurried else (0,)
        self.refusing = dice.random() < 0.2
        """Queues may refuse; then dead letters go to the last queue only, which never does."""
        self.sorted = dice.random() < 0.25
        """Queues may have priorities; then nothing expires."""
        if self.sorted:
            self.short = ()
        self.weighed = dice.random() < 0.1
        """Bytes may be limited; then all properties have one size, and nothing is a dead letter."""
        self.buries = not self.weighed and dice.random() < 0.7
        """There may be dead letters; then there is no BCC."""
        self.queues = [
            f"{dice.choice(('n', 'n', 'n', 'n', 'len2', 'len3' if self.buries else 'n'))}.@.q{n}"
            for n in range(QUEUES)
        ]
        self.exchanges = [f"{dice.choice(('n', 'n', 'n', 'alt'))}.@.x{n}" for n in range(EXCHANGES)]
        self.kinds = [dice.choice(("direct", "topic", "headers", "fanout")) for _ in self.exchanges]
        self.single = {queue: dice.random() < 0.1 for queue in self.queues}
        agrees = 0.5 if dice.random() < 0.4 and not (self.sorted or self.weighed) else 0
        self.quorum = {queue: dice.random() < agrees for queue in self.queues}
        """Which ones are quorum queues."""
        self.numbers = count()

    def script(self) -> list[Step]:
        """A few queues and exchanges, then whatever comes to mind."""
        steps = [self.declare_queue(queue) for queue in self.queues if self.some(0.85)]
        steps += [self.declare_exchange() for _ in range(self.dice.randint(0, 4))]
        steps += [self.bind_queue() for _ in range(self.dice.randint(0, 4))]
        choices = self.choices()
        makers = [maker for maker, weight in choices for _ in range(weight)]
        steps += [
            self.by_somebody(self.dice.choice(makers)()) for _ in range(self.dice.randint(*STEPS))
        ]
        return [("hurry", {}), *steps] if self.hurried else steps

    def by_somebody(self, step: Step) -> Step:
        """What belongs to no channel is now and then done by the stranger."""
        what, given = step
        return (what, {"channel": "stranger", **given}) if self.some(0.07) else step

    def choices(self) -> list[tuple[Callable[[], Step], int]]:
        """What may come, and how often."""
        return [
            (self.publish, 16),
            (self.get, 9),
            (self.consume, 5),
            (self.settle, 14),
            (self.bind_queue, 3),
            (self.bind_exchange, 2),
            (self.unbind, 2),
            (self.declare_queue, 3),
            (self.declare_exchange, 3),
            (self.again, 1),
            (self.qos, 3),
            (self.cancel, 2),
            (self.recover, 1),
            (self.purge, 1),
            (self.delete_queue, 2),
            (self.delete_exchange, 1),
            (self.transact, 3),
            (self.close_channel, 1),
        ]

    def queue(self) -> str:
        return self.dice.choice(self.queues)

    def exchange(self) -> str:
        return self.dice.choice((*self.exchanges, "", "amq.direct", "amq.topic", "amq.fanout"))

    def channel(self, *modes: str) -> str:
        return self.dice.choice(modes or ("confirm", "confirm", "plain", "tx", "stranger"))

    def some(self, chance: float) -> bool:
        return self.dice.random() < chance

    def declare_queue(self, queue: str = "") -> Step:
        queue = queue or self.queue()
        if self.quorum[queue] and self.some(0.95):
            return "declare_queue", {
                "queue": queue,
                "durable": True,
                "arguments": {
                    "x-queue-type": "quorum",
                    **self.arguments(queue),
                    **self.of_quorum(),
                },
            }
        where = {"x-queue-master-locator": "random"} if self.is_scattered else {}
        return "declare_queue", {
            "queue": queue,
            "durable": self.some(0.5),
            "exclusive": self.some(0.1),
            "auto_delete": self.some(0.1),
            "arguments": self.arguments(queue) | where,
        }

    def arguments(self, queue: str) -> dict[str, Any]:
        """Of a queue; sometimes of a kind no broker takes."""
        dice = self.dice
        if queue == self.queues[-1] and self.refusing:
            return {}
        given: dict[str, Any] = {}
        if self.some(0.3):
            given["x-message-ttl"] = dice.choice((LONG_MS, *self.short))
        if self.some(0.1):
            given["x-expires"] = LONG_MS
        if self.some(0.3):
            given["x-max-length"] = dice.choice((1, 2, 3, 5))
        if self.weighed and self.some(0.6):
            given["x-max-length-bytes"] = dice.choice((0, 20, 100))
        if self.some(0.3):
            refusals = ("reject-publish", "reject-publish-dlx") if self.refusing else ()
            given["x-overflow"] = dice.choice(("drop-head", *refusals))
        if self.buries and self.some(0.6):
            given |= self.dead_letters()
        if self.sorted and self.some(0.6):
            given["x-max-priority"] = dice.choice((1, 3, 10, 255))
        if self.single[queue]:
            given["x-single-active-consumer"] = True
        if self.some(0.02 if self.quorum[queue] else 0.1):
            given["x-queue-mode"] = dice.choice(("lazy", "default"))
        if self.some(0.04):
            given |= self.nonsense()
        return given

    def of_quorum(self) -> dict[str, Any]:
        """Arguments that only quorum queues have. Without a delivery limit what comes back is put
        behind the rest by RabbitMQ, since 3.10."""
        dice = self.dice
        given: dict[str, Any] = {"x-delivery-limit": dice.choice((0, 1, 2, 9))}
        if self.some(0.2):
            given["x-dead-letter-strategy"] = dice.choice(("at-most-once", "at-least-once"))
        if self.some(0.1):
            given["x-max-in-memory-length"] = dice.choice((0, 1))
        if self.some(0.1):
            given["x-quorum-initial-group-size"] = 1
        return given

    def dead_letters(self) -> dict[str, Any]:
        dice = self.dice
        if self.refusing:
            return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.queues[-1]}
        given = {"x-dead-letter-exchange": self.exchange()}
        if given["x-dead-letter-exchange"] == "" or self.some(0.3):
            given["x-dead-letter-routing-key"] = dice.choice((*self.queues, *self.queues, *KEYS))
        return given

    def nonsense(self) -> dict[str, Any]:
        names = ("message-ttl", "expires", "max-length", "max-length-bytes", "max-priority")
        strings = ("overflow", "queue-mode", "single-active-consumer", "dead-letter-strategy")
        sizes = ("quorum-initial-group-size", "max-in-memory-length", "max-in-memory-bytes")
        name = self.dice.choice((*names, *strings, *sizes))
        if self.some(0.2):
            name = self.dice.choice(("dead-letter-exchange", "dead-letter-routing-key"))
        return {f"x-{name}": self.dice.choice((-1, "some", 1 << 40, 300, True, [1], None))}

    def declare_exchange(self) -> Step:
        number = self.dice.randrange(EXCHANGES)
        kind = self.dice.choice((*[self.kinds[number]] * 8, "fanout", "nonsense"))
        given: dict[str, Any] = {}
        if self.some(0.2):
            given["alternate-exchange"] = self.dice.choice((*self.exchanges, "amq.fanout", 5))
        return "declare_exchange", {
            "exchange": self.exchanges[number],
            "exchange_type": kind,
            "durable": self.some(0.5),
            "auto_delete": self.some(0.15),
            "internal": self.some(0.1),
            "arguments": given,
        }

    def again(self) -> Step:
        """A passive declaration."""
        if self.some(0.5):
            return "declare_queue", {"queue": self.queue(), "passive": True}
        exchange, kind = self.dice.choice(self.exchanges), self.dice.choice(self.kinds)
        return "declare_exchange", {"exchange": exchange, "exchange_type": kind, "passive": True}

    def binding(self) -> dict[str, Any]:
        kind = self.dice.choice((KEYS, PATTERNS))
        given = self.dice.choice((*MATCHING, None, None, None, None))
        return {"routing_key": self.dice.choice(kind), "arguments": given}

    def bind_queue(self) -> Step:
        return "bind_queue", {
            "queue": self.queue(),
            "exchange": self.exchange(),
            **self.binding(),
        }

    def bind_exchange(self) -> Step:
        return "bind_exchange", {
            "destination": self.exchange(),
            "source": self.exchange(),
            **self.binding(),
        }

    def unbind(self) -> Step:
        what, given = self.dice.choice((self.bind_queue, self.bind_exchange))()
        return "un" + what, given

    def publish(self) -> Step:
        """To an exchange, or straight into a queue."""
        dice = self.dice
        exchange, key = self.exchange(), dice.choice(KEYS)
        if self.some(0.5):
            exchange, key = "", self.queue()
        return "publish", {
            "channel": self.channel(),
            "exchange": exchange,
            "key": key,
            "mandatory": self.some(0.2),
            "bodies": [self.body() for _ in range(dice.choice((1, 1, 1, 2, 5)))],
            "properties": self.properties(),
        }

    def body(self) -> str:
        return f"{next(self.numbers)} ".ljust(self.dice.choice((0, 0, 5, 15, 60)), ".")

    def properties(self) -> dict[str, Any]:
        dice = self.dice
        given: dict[str, Any] = {"delivery_mode": dice.choice((1, 2, 2))}
        if self.weighed:
            return given
        headers = dice.choice(HEADERS)
        if self.some(0.15):
            names = dice.choice(("CC", "CC" if self.buries else "BCC"))
            headers = {**(headers or {}), names: [dice.choice((*self.queues, *KEYS))]}
        if headers is not None:
            given["headers"] = headers
        if self.some(0.2):
            given["expiration"] = str(dice.choice((LONG_MS, LONG_MS, *self.short)))
        if self.some(0.02):
            given["expiration"] = dice.choice(("-1", "soon", "1.5", ""))
        if self.some(0.4):
            given["priority"] = dice.choice((0, 1, 2, 3, 5, 200))
        if self.some(0.1):
            given |= {"message_id": "m", "timestamp": 1_600_000_000, "content_type": "text/plain"}
        if self.some(0.02):
            given["user_id"] = dice.choice(("guest", "somebody"))
        return given

    def get(self) -> Step:
        given = {"channel": self.channel(), "queue": self.queue(), "auto_ack": self.some(0.3)}
        return "get", given

    def consume(self) -> Step:
        queue = self.queue()
        channel = self.channel()
        if any(self.quorum.values()):  # which queue is first to agree on a message is nobody's rule
            channel = CHANNELS[self.queues.index(queue)]
        given: dict[str, Any] = {
            "channel": channel,
            "queue": queue,
            "tag": f"c{self.dice.randrange(CONSUMERS)}",
            "auto_ack": self.some(0.2),
            "exclusive": self.some(0.1) and not self.quorum[queue],
        }
        if self.some(0.2):
            given["arguments"] = {"x-priority": self.dice.choice((-1, 0, 5, "high"))}
        return "consume", given

    def cancel(self) -> Step:
        if any(self.single.values()):  # the next one goes on at once
            return self.get()
        return "cancel", {"channel": self.channel(), "tag": f"c{self.dice.randrange(CONSUMERS)}"}

    def settle(self) -> Step:
        """Of what is out on a channel: the number `nth`, modulo how many there are."""
        return "settle", {
            "channel": self.channel(),
            "how": self.dice.choice(("ack", "ack", "nack", "reject")),
            "nth": self.dice.choice((0, 0, 0, 1, 2, -1)),
            "multiple": self.some(0.3),
            "requeue": self.some(0.5),
            "twice": self.some(0.02),
        }

    def qos(self) -> Step:
        return "qos", {
            "channel": self.channel(),
            "prefetch_count": self.dice.choice((0, 1, 2, 3)),
            "global_qos": self.some(0.3),
        }

    def recover(self) -> Step:
        return "recover", {"channel": self.channel(), "requeue": self.some(0.9)}

    def purge(self) -> Step:
        return "purge", {"queue": self.queue()}

    def delete_queue(self) -> Step:
        queue = self.queue()
        only = {"if_unused": self.some(0.3), "if_empty": self.some(0.3)}
        return "delete_queue", {"queue": queue, **({} if self.quorum[queue] else only)}

    def delete_exchange(self) -> Step:
        return "delete_exchange", {"exchange": self.exchange(), "if_unused": self.some(0.3)}

    def transact(self) -> Step:
        channel = self.dice.choice(("tx", "tx", "tx", "tx", "plain"))
        return self.dice.choice(("commit", "commit", "rollback")), {"channel": channel}

    def close_channel(self) -> Step:
        return "close_channel", {"channel": self.channel()}
