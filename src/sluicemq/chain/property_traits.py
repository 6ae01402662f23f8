"""What the broker must know of a message before it is routed, out of its raw properties.

Nearly all messages share one of two PropertyTraits, PERSISTENT and TRANSIENT; those with an
expiration or a priority share theirs when they agree in these. A message that names further
receivers in its headers CC and BCC has PropertyTraits of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sluicemq.amqp.methods import BasicPublish
from sluicemq.amqp.properties import (
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    PRIORITY,
    REPLY_TO,
    USER_ID,
    BasicProperties,
    delivery_mode,
    priority_of,
    text_property,
    with_text,
    without_header,
)
from sluicemq.amqp.types import FieldValue, Malformed
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.arguments import TIMER_MAX_MS, type_name
from sluicemq.model.reply_address import PSEUDO_QUEUE
from sluicemq.model.traits import PERSISTENT, TRANSIENT, PropertyTraits, property_traits
from sluicemq.text import octets

BASIC_PUBLISH: Final = (BasicPublish.class_id, BasicPublish.method_id)
NEEDS_LOOK: Final = DELIVERY_MODE | EXPIRATION | USER_ID | HEADERS | REPLY_TO | PRIORITY
"""Others are none of the broker's business."""
PERSISTENT_MODE: Final = 2
COPY: Final = "CC"
BLIND_COPY: Final = "BCC"
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
ASKING: Final = PSEUDO_QUEUE.encode()
"""As reply_to: the publisher wants the address of its own reply consumer there."""
MARKS: Final = (b"\x02CC", b"\x03BCC")
"""Where these octets are not, these headers are not."""


def traits_in(raw: bytes, user: str | None, replies_at: str = "") -> PropertyTraits:
    """Return the traits that these raw properties give a message, which `user` publishes on a
    channel that hears replies at `replies_at` (empty: at none); with None it may be in anybody's
    name. Raises ChannelViolation (406) for what RabbitMQ refuses, in its order, and
    ConnectionViolation (501) when headers that must be read cannot be."""
    flags = raw[0] << 8 | raw[1]
    if not flags & NEEDS_LOOK:
        return TRANSIENT
    rewritten = None
    if flags & REPLY_TO and ASKING in raw and text_property(raw, REPLY_TO) == ASKING:
        if not replies_at:
            raise refused("fast reply consumer does not exist")
        raw = rewritten = with_text(raw, REPLY_TO, replies_at)
    if flags & USER_ID and user is not None:
        check_user(text_property(raw, USER_ID) or b"", user)
    ttl_ms = None
    if flags & EXPIRATION:
        ttl_ms = expiration((text_property(raw, EXPIRATION) or b"").decode(errors="replace"))
    priority = priority_of(raw) if flags & PRIORITY else 0
    if flags & HEADERS and (MARKS[0] in raw or MARKS[1] in raw):
        return traits_with_receivers(raw, rewritten, ttl_ms, priority)
    if rewritten is not None:
        return PropertyTraits(is_persistent(raw), (), rewritten, ttl_ms, priority)
    if ttl_ms is not None or priority:
        return property_traits(is_persistent(raw), ttl_ms, priority)
    return PERSISTENT if is_persistent(raw) else TRANSIENT


def traits_with_receivers(
    raw: bytes, rewritten: bytes | None, ttl_ms: int | None, priority: int
) -> PropertyTraits:
    """Return the traits of a message that seems to have CC or BCC. Raises ConnectionViolation (501)
    when its headers cannot be decoded, and ChannelViolation (406) when these are no lists."""
    try:
        headers = BasicProperties.decode(raw).headers or {}
    except Malformed as error:
        raise undecodable(error) from error
    keys = [key for name in (COPY, BLIND_COPY) for key in receivers(headers, name)]
    if BLIND_COPY in headers:
        rewritten = without_header(raw, BLIND_COPY)
    return PropertyTraits(is_persistent(raw), tuple(keys), rewritten, ttl_ms, priority)


def receivers(headers: dict[str, FieldValue], name: str) -> Iterable[str]:
    """Return the routing keys in the header `name`, CC or BCC; none when it is missing. Raises
    ChannelViolation (406) when it is no list."""
    value = headers.get(name, [])
    if not isinstance(value, list):
        kind = type_name(value)
        raise refused(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
    return (key for key in value if isinstance(key, str))


def is_persistent(raw: bytes) -> bool:
    mode = delivery_mode(raw)
    if mode > PERSISTENT_MODE:
        raise refused(f"invalid message: {{delivery_mode_unknown,{mode}}}")
    return mode == PERSISTENT_MODE


def check_user(claimed: bytes, user: str) -> None:
    """Raise ChannelViolation (406) if the user_id that a message claims is not the name of its
    publisher."""
    if claimed != octets(user):
        name = claimed.decode(errors="replace")
        raise refused(f"user_id property set to '{name}' but authenticated user was '{user}'")


def expiration(text: str) -> int:
    """Return the milliseconds that `expiration` says. Raises ChannelViolation (406) unless it is a
    whole number from 0 to TIMER_MAX_MS (ten years), both included."""
    number = WHOLE_NUMBER.match(text)
    flaw = ""
    if number is None:
        flaw = "no_integer"
    elif rest := text[number.end() :]:
        quoted = rest.replace("\\", "\\\\").replace('"', '\\"')
        flaw = f'{{leftover_string,"{quoted}"}}'
    elif (ttl_ms := int(text)) < 0:
        flaw = f"{{value_negative,{ttl_ms}}}"
    elif ttl_ms > TIMER_MAX_MS:
        flaw = f"{{value_too_large,{ttl_ms}}}"
    else:
        return ttl_ms
    raise refused(f"invalid expiration '{text}': {flaw}")


def refused(text: str) -> ChannelViolation:
    """Return the 406 that refuses a publish with this text."""
    return ChannelViolation(406, text, *BASIC_PUBLISH)


def undecodable(error: Malformed) -> ConnectionViolation:
    """Return the 501 for a headers table that somebody has to read, and cannot."""
    text = f"cannot decode the headers of a message: {error}"
    return ConnectionViolation(501, text, *BASIC_PUBLISH)
