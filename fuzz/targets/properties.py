"""The payload of a content header frame: class, weight, body size, properties."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from pamqp.header import ContentHeader

from sluicemq.amqp import properties as p
from sluicemq.amqp.frames import content_body, content_frames, content_header
from sluicemq.amqp.properties import PROPERTIES, BasicProperties, Header
from sluicemq.amqp.types import Malformed, encode_table
from targets.second_codec import cannot_read, far, is_text, same, seconds_of, theirs
from targets.target import Target

NUMBERS_OR_TABLES = p.HEADERS | p.DELIVERY_MODE | p.PRIORITY | p.TIMESTAMP


def decode(data: bytes) -> tuple[Header, BasicProperties] | None:
    """Both, or None: refused."""
    try:
        header = p.parse_header(data)
        return header, BasicProperties.decode(header.properties)
    except Malformed:
        return None


def check(data: bytes) -> None:
    """Nothing but `Malformed`; the quick readers find what the decoder finds; pamqp agrees."""
    decoded = decode(data)
    if decoded is None:
        assert not is_written_back(data), "pamqp accepts it"
        check_unread(data)
        return
    header, properties = decoded
    raw = header.properties
    p.check_properties(raw, 0, len(raw))
    check_quick_readers(raw, properties)
    canonical = properties.encode()
    assert same(BasicProperties.decode(canonical), properties), "not what was written"
    for cut in range(len(canonical)):
        assert decode(data[:12] + canonical[:cut]) is None, "cut properties are accepted"
    content = content_frames(1, raw, b"body", 4096)
    assert content_header(content).properties == raw
    assert content_body(content) == b"body"
    if cannot_agree(properties) is None:
        agree(data[:12] + canonical, header, properties)


def check_unread(data: bytes) -> None:
    """What only has a bad table in it is passed on unread; the readers of other properties must
    cope with that."""
    try:
        raw = p.parse_header(data).properties
        p.check_properties(raw, 0, len(raw))
    except Malformed:
        return
    p.delivery_mode(raw)
    for _, flag in PROPERTIES:
        if not flag & NUMBERS_OR_TABLES:
            p.text_property(raw, flag)
    if p.FLAGS.unpack_from(raw)[0] & p.HEADERS:
        try:
            p.without_header(raw, "CC")
        except Malformed:
            return


def check_quick_readers(raw: bytes, properties: BasicProperties) -> None:
    """Reading one property gives what reading all gives, and changing one leaves the others."""
    assert p.delivery_mode(raw) == (properties.delivery_mode or 0)
    for name, flag in PROPERTIES:
        if flag & NUMBERS_OR_TABLES:
            continue
        value = getattr(properties, name)
        found = p.text_property(raw, flag)
        assert (found is None) == (value is None), name
        if found is not None:
            assert found.decode("utf-8", "surrogateescape") == value
            changed = BasicProperties.decode(p.with_text(raw, flag, "other"))
            assert same({**asdict(properties), name: "other"}, asdict(changed))
    if properties.headers:
        name = next(iter(properties.headers))
        changed = BasicProperties.decode(p.without_header(raw, name))
        rest = {key: value for key, value in properties.headers.items() if key != name}
        assert same({**asdict(properties), "headers": rest}, asdict(changed))


def cannot_agree(properties: BasicProperties) -> str | None:
    """Why pamqp refuses what we accept."""
    if properties.timestamp is not None and far(properties.timestamp):
        return "a timestamp has 64 bits, a datetime ends in the year 9999"
    texts = [value for value in asdict(properties).values() if isinstance(value, str)]
    if not all(map(is_text, texts)):
        return "RabbitMQ takes any bytes for text in properties, pamqp only UTF-8"
    return cannot_read(properties.headers)


def agree(payload: bytes, header: Header, properties: BasicProperties) -> None:
    """pamqp finds the same."""
    found = ContentHeader()
    found.unmarshal(payload)
    assert (found.class_id, found.body_size) == (header.class_id, header.body_size)
    for name, _ in PROPERTIES:
        ours = getattr(properties, name)
        if name == "timestamp" and ours is not None:
            ours = datetime.fromtimestamp(seconds_of(ours), tz=UTC)
        elif name == "headers" and ours is not None:
            ours = theirs(ours)
        elif name == "cluster_id" and ours is None:
            ours = ""  # pamqp's default
        their_name = "message_type" if name == "type" else name
        assert same(getattr(found.properties, their_name), ours), name


def is_written_back(data: bytes) -> bool:
    """Does pamqp take the header and write the very same bytes?"""
    found = ContentHeader()
    try:
        found.unmarshal(data)
        return found.marshal() == data
    except (struct.error, ValueError, TypeError, OverflowError, OSError, ArithmeticError):
        return False  # whatever it is that pamqp does not like


def seeds() -> Iterator[bytes]:
    """None, all, each alone; a bad table; a second word of flags."""
    head = p.HEADER.pack(60, 0, 5)
    full = BasicProperties(
        "text/plain", "gzip", {"CC": ["a"], "x-match": "all"}, 2, 9, "id", "reply", "1000",
        "mid", 1_700_000_000, "type", "guest", "app", "cluster",
    )  # fmt: skip
    yield head + b"\0\0"
    yield head + full.encode()
    for name, _ in PROPERTIES:
        yield head + BasicProperties(**{name: getattr(full, name)}).encode()
    yield head + b"\x20\0" + encode_table({"a": 1})[:-1] + b"\xff"
    yield head + b"\x20\0\0\0\0\x03\x01aZ"
    yield head + b"\0\x01\0\0"
    yield head + b"\xff\xfe" + bytes(40)
    yield head[:9]


TARGET = Target("properties", check, decode, seeds, base_bytes=20_000, factor=120)
