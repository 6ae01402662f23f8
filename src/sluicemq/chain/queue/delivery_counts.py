"""The header `x-delivery-count`: how often a message has come back to a queue that counts this.

The header is added at delivery; the queue keeps the message as it was published, and dead letters
are made from that. As in RabbitMQ's quorum queues a consumer's first delivery has no header.
"""

from __future__ import annotations

from typing import Final

from sluicemq.amqp.fields import fields_of, long, replaced, table_of
from sluicemq.amqp.properties import headers_of, with_headers
from sluicemq.amqp.types import Malformed
from sluicemq.model.batch import ENVELOPED, separate
from sluicemq.model.content import properties_of, with_properties

X_DELIVERY_COUNT: Final = b"x-delivery-count"


def counted(contents: list[bytes], envelope: bytes, counts: list[int]) -> list[bytes]:
    """Return the contents of a delivery, with the counts other than 0 in headers."""
    pairs = zip(contents, counts, strict=True)
    if envelope == ENVELOPED:
        return [enveloped(content, count) if count else content for content, count in pairs]
    return [marked(content, count) if count else content for content, count in pairs]


def with_count(content: bytes, envelope: bytes, count: int) -> bytes:
    """Return the content with its count in a header, even if that is 0."""
    return enveloped(content, count) if envelope == ENVELOPED else marked(content, count)


def enveloped(content: bytes, count: int) -> bytes:
    """Return a content that begins with its envelope, with its count in a header."""
    envelope, rest = separate(content)
    return envelope + marked(rest, count)


def marked(content: bytes, count: int) -> bytes:
    """Return a content with its count in a header. A content with unreadable headers is returned as
    it is."""
    raw = properties_of(content)
    try:
        fields = fields_of(headers_of(raw))
    except Malformed:
        return content
    headers = table_of(replaced(fields, X_DELIVERY_COUNT, long(count)))
    return with_properties(content, with_headers(raw, headers))
