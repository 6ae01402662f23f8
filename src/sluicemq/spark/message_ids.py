"""Reads the message ids of many contents at once.

The place of the id in a content depends on the properties before it, and their sizes. All of a
chunk's contents are walked together, property by property.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sluicemq.client.messages import PROPERTIES_AT, BasicProperties, Malformed
from sluicemq.spark.raw_contents import Numbers, RawContents

SHORT_TEXT: Final = "short text"
TABLE: Final = "table"
OCTET: Final = "octet"
BEFORE: Final = (
    (0x8000, SHORT_TEXT),  # content_type
    (0x4000, SHORT_TEXT),  # content_encoding
    (0x2000, TABLE),  # headers
    (0x1000, OCTET),  # delivery_mode
    (0x0800, OCTET),  # priority
    (0x0400, SHORT_TEXT),  # correlation_id
    (0x0200, SHORT_TEXT),  # reply_to
    (0x0100, SHORT_TEXT),  # expiration
)
"""The properties before the id, in order: the flag of each, and the encoding of its size."""
MESSAGE_ID: Final = 0x0080
MORE_FLAGS: Final = 0x0001


def message_ids(contents: RawContents) -> list[str | None]:
    """Return the message id of each content, in order; None where there is none, or the properties
    cannot be read."""
    octets = np.frombuffer(contents.data, np.uint8)
    starts = contents.starts + PROPERTIES_AT
    limits = contents.heads - 1
    flags = number_at(octets, starts, 2)
    places = starts + 2
    for flag, kind in BEFORE:
        there = flags & flag != 0
        if there.any():
            places = places + np.where(there, sizes_at(octets, places, kind), 0)
    has_id = flags & MESSAGE_ID != 0
    sizes = np.where(has_id, octets[np.minimum(places, len(octets) - 1)], 0)
    ends = places + has_id + sizes
    is_odd = (ends > limits) | (flags & MORE_FLAGS != 0)
    lows = np.where(is_odd, starts, places + has_id)
    highs = np.where(is_odd, starts, ends)
    found = texts(contents.parts(lows, highs))
    for row in np.flatnonzero(~has_id | is_odd).tolist():
        found[row] = None
    for row in np.flatnonzero(is_odd).tolist():
        found[row] = message_id(bytes(octets[starts[row] : limits[row]]))
    return found


def message_id(properties: bytes) -> str | None:
    """Return the message id in one content's encoded properties; None when there is none, or they
    cannot be read."""
    try:
        return BasicProperties.decode(properties).message_id
    except Malformed:
        return None


def sizes_at(octets: Numbers, places: Numbers, kind: str) -> Numbers | int:
    """Return how many octets a property of that kind takes at each of these places."""
    if kind == OCTET:
        return 1
    return (
        number_at(octets, places, 1) + 1 if kind == SHORT_TEXT else number_at(octets, places, 4) + 4
    )


def number_at(octets: Numbers, places: Numbers, size: int) -> Numbers:
    """Return the big-endian number of `size` octets at each place. Places beyond the end give
    meaningless numbers; their contents are found to be malformed later."""
    found = np.zeros(len(places), np.int64)
    for at in range(size):
        found = found << 8 | octets[np.minimum(places + at, len(octets) - 1)]
    return found


def texts(values: pa.Array) -> list[str | None]:
    """Return binary values as `str`; octets that are not UTF-8 become surrogates, as elsewhere in
    this package."""
    try:
        found: list[str | None] = values.cast(pa.string()).to_numpy(zero_copy_only=False).tolist()
    except pa.ArrowInvalid:
        found = [each.decode("utf-8", "surrogateescape") for each in values.to_pylist()]
    return found
