"""Values as nobody means them, for every field the broker reads; each among plain ones, so that an
input gets far before something strange comes.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import FieldValue, Timestamp
from targets.choices import Choices

NO_UTF8: Final = "\udcff\udcfe\udc80"
SURROGATE: Final = "\udced\udca0\udc80"
TEXTS: Final = (
    "", "x", NO_UTF8, SURROGATE, "\x1b[2J\r\n\x07", "a" * 255, "a" * 300, "\u00e9" * 200,
    "9" * 5000, "9" * 5000 + "Y", "-1", "5", "+1000", "99999999999999999999Y", "1D", "0", "true",
    "\0", "%s%n{0}", "\u202e",
)  # fmt: skip
QUEUES: Final = (
    "q1", "q2", "durable", "stream", "dead", "exclusive", "priority", "lazy", "dedup", "full",
)  # fmt: skip
EXCHANGES: Final = (
    "", "", "x1", "x2", "delayed", "hash", "amq.fanout", "amq.topic", "amq.direct", "amq.headers",
)  # fmt: skip
"""Those that an input mostly begins with."""
OTHER_NAMES: Final = (
    "", "amq.rabbitmq.reply-to", "amq.gen-x", "none", "\u00e9\x1b", "q1\r\n", "amq.default",
    "amq.x", "amq.delayed.delayed", "a" * 255, "\u00e9" * 127,
)  # fmt: skip
KEYS: Final = (
    "q1", "q2", "durable", "stream", "dead", "", "a.b", "a.*", "#", "*.#.b", "1", "20", "-3", "0",
    "9" * 250, "#.#.#", "a." * 127, "priority", "dedup", "lazy",
)  # fmt: skip
TYPES: Final = (
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random",
    "x-delayed-message", "none", "", "\x1b",
)  # fmt: skip
DELAYED: Final = "x-delayed-message"
HASH: Final = "x-consistent-hash"
PATHS: Final = ("#", "a.*", "q1", "1", "20")
NUMBERS: Final = (
    0, 1, 2, 10, 255, 256, 4096, 0xFFFF, 1 << 16, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62,
    2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
VALUES: Final[tuple[FieldValue, ...]] = (
    1, 0, -1, -5, 50, 1000, 2**31, 2**40, 2**63 - 1, -(2**63), 2**64 - 1, True, False, None, 1.5,
    float("nan"), float("inf"), -0.0, "q1", "x1", "durable", "all", "any", "all-with-x", "fanout",
    "topic", "drop-head", "reject-publish", "reject-publish-dlx", "lazy", "default", "stream",
    "quorum", "classic", "first", "last", "next", "message_id", "timestamp", b"", b"\xff", b"q1",
    Timestamp(0), Timestamp(2**63), Timestamp(2**64 - 1), [], {}, ["q1", "q2"], [["q1"]],
    [NO_UTF8, 5], {"a": [{}]}, {NO_UTF8: NO_UTF8}, [{"queue": "q1", "reason": "expired"}] * 3,
    Decimal("0.0000000001"), Decimal(2**32 - 1).scaleb(-255),
    *TEXTS,
)  # fmt: skip
DEATHS: Final[tuple[FieldValue, ...]] = (
    {"queue": "q1", "reason": "expired", "count": -5},
    {"queue": "durable", "reason": "expired", "count": 2**63 - 1},
    {"queue": "durable", "reason": "maxlen"},
    {"queue": "q2", "reason": "rejected", "count": "x"},
    {"queue": "dead", "reason": "delivery_limit", "count": 1.5},
    {"queue": NO_UTF8, "reason": SURROGATE},
    {"queue": 7, "reason": [], "count": {}},
    {}, NO_UTF8, 5, None, [], "text",
)  # fmt: skip
COUNTS: Final[tuple[FieldValue, ...]] = (-5, 2**63 - 1, -(2**63), 0, None, "x", 1.5, 2**64 - 1)
QUEUE_ARGUMENTS: Final = (
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority", "x-queue-type",
    "x-single-active-consumer", "x-queue-mode", "x-queue-version", "x-max-age",
    "x-stream-max-segment-size-bytes", "x-message-deduplication", "x-cache-size", "x-cache-ttl",
    "x-delivery-limit", "x-queue-master-locator", "x-queue-leader-locator", "other", NO_UTF8,
)  # fmt: skip
PLAIN_QUEUES: Final[dict[str, dict[str, Any]]] = {
    "dead": {"other": 1},
    "durable": {"x-message-ttl": 50, "x-dead-letter-exchange": "amq.fanout"},
    "priority": {"x-max-priority": 5, "x-max-length": 3, "x-dead-letter-exchange": "x1"},
    "stream": {"x-queue-type": "stream", "x-max-length-bytes": 5000},
    "lazy": {"x-queue-mode": "lazy", "x-expires": 4_000_000},
    "dedup": {"x-message-deduplication": True, "x-cache-size": 2, "x-cache-ttl": 1000},
    "full": {
        "x-max-length": 1, "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "a.b",
    },
}  # fmt: skip
OTHER_QUEUES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"x-message-ttl": 50, "x-dead-letter-exchange": ""},
    {"x-message-ttl": 0, "x-dead-letter-exchange": "amq.fanout"},
    {"x-delivery-limit": 1, "x-dead-letter-exchange": "delayed", "x-single-active-consumer": True},
    {"x-max-length-bytes": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q2"},
    {"x-max-length": 2, "x-dead-letter-exchange": "hash", "x-dead-letter-routing-key": "k" * 300},
    *PLAIN_QUEUES.values(),
)
EXCHANGE_ARGUMENTS: Final = (
    "alternate-exchange", "x-delayed-type", "hash-header", "hash-property", "other", NO_UTF8,
)  # fmt: skip
BINDING_ARGUMENTS: Final = ("x-match", "a", "b", "x-a", "CC", "x-death", NO_UTF8)
CONSUMER_ARGUMENTS: Final = (
    "x-priority", "x-stream-offset", "x-cancel-on-ha-failover", "other", NO_UTF8,
)  # fmt: skip
CLIENT_PROPERTIES: Final = (
    "capabilities", "connection_name", "product", "version", "platform", "information", NO_UTF8,
)  # fmt: skip
HEADERS: Final = (
    "CC", "BCC", "x-delay", "x-death", "x-match", "x-deduplication-header", "a", "b", "x-a",
    "x-first-death-queue", "x-first-death-reason", "x-delivery-count", "x-stream-offset", NO_UTF8,
)  # fmt: skip
EXPIRATIONS: Final = (None, "0", "50", "1000", "-1", "soon", "9" * 255, "5x", NO_UTF8, "", "+7")
BROKEN_TABLES: Final = (
    b"\xff", b"\x01a", b"\x01aS\xff\xff\xff\xff", b"\x01aZ", b"\x01aA\0\0\0\x01F",
    b"\x07x-deathA\0\0\0\1F", b"\x02CCA\0\0\0\5S\0\0\0", b"\0t\1\0t\0",
    b"\x07x-delayl" + b"\xff" * 8,
    b"\x07x-deathF\0\0\0\0\x07x-deathA\0\0\0\0", b"\x02CCA\0\0\0\x07S\0\0\0\2q1\x02CCA\0\0\0\0",
    b"\x03BCCA\0\0\0\x07S\0\0\0\2q2",
)  # fmt: skip
"""Cut, of no known type, or with a name twice."""
JSON_VALUES: Final = (
    "{}", "[]", "5", "null", '"x"', "{", "1e999", "NaN", '"\\ud800"', '"\\udcff"', "9" * 5000,
    "[" * 64 + "]" * 64, "[" * 975 + "]" * 975, "[" * 20_000, '{"max-connections": 1}',
    '{"max-channels": -1, "max-connections": 99999999999999999999999}', '{"max-queues": 2}',
    '{"max-length": 1}', '{"message-ttl": 10, "dead-letter-exchange": "amq.fanout"}',
    '{"dead-letter-exchange": "x1", "dead-letter-routing-key": "' + "k" * 300 + '"}',
    '{"expires": 1, "max-length-bytes": 0, "overflow": "reject-publish"}',
    '{"alternate-exchange": "\\u00e9"}', '{"max-age": "999999999999999999Y"}', '{"queue-mode": 5}',
    '{"max-length": 1e30}', '{"delivery-limit": 0, "dead-letter-exchange": ""}',
)  # fmt: skip
PATTERNS: Final = (".*", "", "^q", "(", "(a+)+$", "\u00e9", "(?!)", "^amq", "a{99}{99}", "\x1b")


def queue(choices: Choices) -> str:
    """The name of one, mostly of one that is there."""
    return choices.pick(OTHER_NAMES if choices.octet() % 16 == 0 else QUEUES)


def exchange(choices: Choices) -> str:
    """The same."""
    return choices.pick(OTHER_NAMES if choices.octet() % 16 == 0 else EXCHANGES)


def text(choices: Choices, usual: tuple[str, ...]) -> str:
    """Mostly one of the usual ones."""
    return choices.pick(TEXTS) if choices.octet() % 16 == 0 else choices.pick(usual)


def table(choices: Choices, names: tuple[str, ...]) -> dict[str, Any]:
    """A few of these names, with any values."""
    return {choices.pick(names): choices.pick(VALUES) for _ in range(choices.below(4))}


def queue_arguments(choices: Choices) -> dict[str, Any]:
    """Something sensible, and sometimes something else besides."""
    found = dict(choices.pick(OTHER_QUEUES))
    return found | table(choices, QUEUE_ARGUMENTS) if choices.octet() % 3 == 0 else found


def death(choices: Choices, queue: str) -> FieldValue:
    """One that may be met again in that queue, with any count."""
    reason = choices.pick(("expired", "expired", "maxlen", "rejected"))
    return {"queue": queue, "reason": reason, "count": choices.pick(COUNTS)}


def headers(choices: Choices, queue: str) -> dict[str, Any]:
    """Of a message that goes to that queue, as likely as not."""
    found = table(choices, HEADERS)
    kind = choices.below(6)
    if kind == 0:
        found["x-death"] = [choices.pick(DEATHS) for _ in range(choices.below(5))]
    elif kind >= 4:
        found["x-death"] = [death(choices, queue) for _ in range(1 + choices.below(3))]
    elif kind == 1:
        found["x-delay"] = choices.pick((50, 1000, *VALUES))
    elif kind == 2:
        found["CC"] = [choices.pick(KEYS + TEXTS) for _ in range(choices.below(4))]
    return found


def properties(choices: Choices, queue: str) -> bytes:
    """Of a message, raw: none, plain ones, with any headers, or with a broken table."""
    kind = choices.below(5)
    if kind == 0:
        return b"\0\0"
    if kind == 1:
        return BasicProperties(delivery_mode=2).encode()
    if kind == 2:
        raw = choices.pick(BROKEN_TABLES)
        return b"\x30\0" + len(raw).to_bytes(4) + raw + b"\2"
    return BasicProperties(
        delivery_mode=choices.pick((2, 2, None, 1, 0, 255)),
        priority=choices.pick((None, 0, 3, 255)),
        expiration=choices.pick(EXPIRATIONS),
        reply_to=choices.pick(
            (None, None, "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x", NO_UTF8)
        ),
        user_id=choices.pick((None, None, None, "guest", "other", NO_UTF8)),
        message_id=choices.pick((None, "1", NO_UTF8)),
        timestamp=choices.pick((None, 2**64 - 1)),
        app_id=choices.pick((None, NO_UTF8)),
        headers=headers(choices, queue) if choices.octet() % 4 else None,
    ).encode()


def document(choices: Choices) -> str:
    """Definitions to be imported."""
    if choices.flag():
        return choices.pick(JSON_VALUES)
    row = {
        "name": choices.pick(QUEUES),
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "arguments": dict(choices.pick(OTHER_QUEUES)),
    }
    other = {
        "name": choices.pick(EXCHANGES),
        "vhost": "/",
        "type": choices.pick(TYPES),
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-delayed-type": "fanout"},
    }
    binding = {"source": choices.pick(EXCHANGES), "vhost": "/", "destination_type": "queue",
               "destination": choices.pick(QUEUES), "routing_key": choices.pick(KEYS),
               "arguments": {}}  # fmt: skip
    policy = {"name": "p", "vhost": "/", "pattern": choices.pick(PATTERNS), "apply-to": "all",
              "definition": {"max-length": 1}}  # fmt: skip
    parameter = {"component": "c", "name": "n", "vhost": "/", "value": choices.pick((1, [], None))}
    sections: dict[str, list[dict[str, Any]]] = {
        "queues": [row], "exchanges": [other], "bindings": [binding], "policies": [policy],
        "parameters": [parameter],
    }  # fmt: skip
    for rows in sections.values():
        for row in rows:
            if choices.octet() % 8 == 0:
                row[choices.pick([*row])] = choices.pick((None, 5, "\udcff", "\ud800", [], {}, "x"))
    kept = choices.octet()
    return json.dumps(
        {name: rows for n, (name, rows) in enumerate(sections.items()) if kept >> n & 1}
    )
