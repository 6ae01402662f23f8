"""The properties within a content, which is the raw header frame and body frames of a message."""

from __future__ import annotations


def properties_of(content: bytes) -> bytes:
    """Return the properties of a content as raw bytes: the flags and the fields."""
    return content[19 : 7 + int.from_bytes(content[3:7])]


def with_properties(content: bytes, properties: bytes) -> bytes:
    """Return the same content with other properties, given as raw flags and fields."""
    size = int.from_bytes(content[3:7])
    new_size = (12 + len(properties)).to_bytes(4)
    return b"".join((content[:3], new_size, content[7:19], properties, content[7 + size :]))
