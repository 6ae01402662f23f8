"""The keys of a policy, the values they take, and RabbitMQ's error texts for wrong ones.

Keys of mirrored queues, and those that choose where the leader of a queue is, have no effect on a
node that is alone; they are checked and kept there, so that the definitions of a cluster can be
imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from sluicemq.errors import Refused
from sluicemq.model.arguments import TIMER_MAX_MS
from sluicemq.model.terms import term

WHOLE_MAX: Final = (1 << 63) - 1
SEGMENT_BYTES_MAX: Final = 3_000_000_000
"""The largest segment of a stream that RabbitMQ allows, in bytes."""
AGE: Final = re.compile(r"(?!0)[0-9]{1,18}[YMDhms]")

Accepts = Callable[[object], bool]


def whole(least: int, most: int = WHOLE_MAX) -> Accepts:
    """Return a test for whole numbers from `least` to `most`, both included."""
    return lambda value: type(value) is int and least <= value <= most


def one_of(*words: object) -> Accepts:
    """Return a test for values that equal one of these words and are of its type."""
    return lambda value: any(type(value) is type(word) and value == word for word in words)


def text(value: object) -> bool:
    return isinstance(value, str)


def age(value: object) -> bool:
    """Tell whether a value is an age as policies write it: a number above 0 and a unit, such as
    7D."""
    return isinstance(value, str) and AGE.fullmatch(value) is not None


KEYS: Final[dict[str, tuple[Accepts, str]]] = {
    "alternate-exchange": (text, "alternate exchange name"),
    "dead-letter-exchange": (text, "dead letter exchange name"),
    "dead-letter-routing-key": (text, "dead letter routing key"),
    "dead-letter-strategy": (one_of("at-most-once", "at-least-once"), "dead letter strategy"),
    "message-ttl": (whole(0, TIMER_MAX_MS), "message TTL"),
    "expires": (whole(1, TIMER_MAX_MS), "queue expiry"),
    "max-length": (whole(0), "maximum length"),
    "max-length-bytes": (whole(0), "maximum length in bytes"),
    "max-in-memory-length": (whole(0), "maximum memory in bytes"),
    "max-in-memory-bytes": (whole(0), "maximum memory in bytes"),
    "overflow": (one_of("drop-head", "reject-publish", "reject-publish-dlx"), "overflow value"),
    "delivery-limit": (whole(0), "delivery limit"),
    "queue-mode": (one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (one_of(1, 2), "queue-version value"),
    "max-age": (age, "max age"),
    "stream-max-segment-size-bytes": (whole(0, SEGMENT_BYTES_MAX), "segment size"),
    "queue-leader-locator": (
        one_of("client-local", "balanced", "random", "least-leaders"),
        "queue leader locator value",
    ),
    "queue-master-locator": (
        one_of("client-local", "min-masters", "random"),
        "queue master locator",
    ),
    "initial-cluster-size": (whole(0), "cluster size"),
}
"""For each key the value it takes, and what RabbitMQ calls that."""

OPERATOR_KEYS: Final = (
    "delivery-limit",
    "expires",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "message-ttl",
)
"""What an operator policy may say: limits, of which the smaller one holds."""

MIRRORING: Final = (
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
)
PROMOTIONS: Final = ("always", "when-synced")


def check_definition(definition: object, operator: bool) -> None:
    """Raise Refused when RabbitMQ would refuse this as the definition of a policy, or of an
    operator policy (`operator`)."""
    if not isinstance(definition, Mapping):
        raise Refused("a policy's definition must be a JSON object")
    if not definition:
        raise Refused("no policy provided")
    known = OPERATOR_KEYS if operator else (*KEYS, *MIRRORING)
    strange = [f"{{{term(key)},{term(definition[key])}}}" for key in definition if key not in known]
    if strange:
        raise Refused(f"[{','.join(strange)}] are not recognised policy settings")
    check_values(definition)
    check_mirroring(definition)


def check_values(definition: Mapping[str, object]) -> None:
    """Raise Refused for a value that cannot be used here. Unknown keys are ignored."""
    for key, value in definition.items():
        if key in KEYS and not KEYS[key][0](value):
            raise Refused(f"{term(value)} is not a valid {KEYS[key][1]}")


def check_mirroring(definition: Mapping[str, object]) -> None:
    """Raise Refused when the keys of mirrored queues do not go together."""
    mode = definition.get("ha-mode")
    if mode is None:
        if any(key in definition for key in MIRRORING):
            raise Refused(
                "ha-mode must be specified to specify ha-params, ha-sync-mode or "
                "ha-promote-on-shutdown"
            )
        return
    check_mirrors(mode, definition.get("ha-params"))
    sync_mode = definition.get("ha-sync-mode", "manual")
    if sync_mode not in ("manual", "automatic"):
        raise Refused(f'ha-sync-mode must be "manual" or "automatic", got {term(sync_mode)}')
    size = definition.get("ha-sync-batch-size", 1)
    if not whole(1)(size):
        raise Refused(f"ha-sync-batch-size takes an integer greater than 0, {term(size)} given")
    for key in ("ha-promote-on-shutdown", "ha-promote-on-failure"):
        value = definition.get(key, "always")
        if value not in PROMOTIONS:
            raise Refused(f'{key} must be "always" or "when-synced", got {term(value)}')


def check_mirrors(mode: object, params: object) -> None:
    """Raise Refused when `params`, which say how many mirrors there are or where, do not fit the
    mode; None means that there are none."""
    if mode == "all":
        if params is not None:
            raise Refused('ha-mode="all" does not take parameters')
    elif mode == "exactly":
        if not whole(1)(params):
            given = "none" if params is None else term(params)
            raise Refused(f'ha-mode="exactly" takes an integer, {given} given')
    elif mode == "nodes":
        names = params if isinstance(params, list | tuple) else ()
        if not names or not all(isinstance(name, str) for name in names):
            given = "none" if params is None else term(params)
            raise Refused(f'ha-mode="nodes" takes a list of strings, {given} given')
    else:
        raise Refused(f"{term(mode)} is not a valid ha-mode value")
