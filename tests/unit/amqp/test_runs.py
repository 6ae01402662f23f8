"""Cutting whole runs says the same as looking at each frame."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.methods import BasicPublish
from sluicemq.amqp.runs import ACK_SIZE, PublishStencil, cut_acks

ACK_HEAD = b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50"
MARKS = st.one_of(st.just(b"\x00\xce"), st.just(b"\x01\xce"), st.just(b"\x00\xcf"))


def ack(tag: int, head: bytes = ACK_HEAD, rest: bytes = b"\x00\xce") -> bytes:
    return head + tag.to_bytes(8) + rest


def acks_one_by_one(buf: bytes, pos: int) -> list[int]:
    """Return what `cut_acks` has to find."""
    head = buf[pos : pos + len(ACK_HEAD)]
    tags: list[int] = []
    while len(buf) - pos >= ACK_SIZE:
        frame = buf[pos : pos + ACK_SIZE]
        if not (frame.startswith(head) and frame.endswith(b"\x00\xce")):
            break
        tags.append(int.from_bytes(frame[-10:-2]))
        pos += ACK_SIZE
    return tags


@given(st.integers(0, 100), st.lists(st.tuples(st.integers(0), MARKS)), st.binary())
def test_acks_up_to_the_first_other_frame(
    count: int, others: list[tuple[int, bytes]], rest: bytes
) -> None:
    frames = [ack(tag) for tag in range(7, 7 + count)]
    for at, mark in others:
        if frames:
            frames[at % count] = ack(at % 9, rest=mark)
    buf = b"." + b"".join(frames) + rest
    assert cut_acks(buf, 1) == acks_one_by_one(buf, 1)


@given(st.integers(1, 100), st.data())
def test_an_octet_that_differs_ends_a_run_of_acks(count: int, data: st.DataObject) -> None:
    buf = bytearray(b"".join(ack(tag) for tag in range(count)))
    buf[data.draw(st.integers(0, len(buf) - 1))] ^= data.draw(st.integers(1, 255))
    assert cut_acks(bytes(buf), 0) == acks_one_by_one(bytes(buf), 0)


@given(st.integers(1, 100), st.integers(0, 100), st.integers(0, 59))
def test_a_run_ends_before_the_first_message_that_looks_otherwise(
    count: int, other: int, offset: int
) -> None:
    raw = b"\x01\x00\x01\x00\x00\x00\x09\x00\x3c\x00\x28\x00\x00\x00\x00\xce"
    header = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00" + (40).to_bytes(8) + b"\x00\x00\xce"
    body_head = b"\x03\x00\x01\x00\x00\x00\x28"
    messages = [raw + header + body_head + bytes([n]) * 40 + b"\xce" for n in range(count)]
    at = len(raw) + offset
    if other < count and at < len(messages[0]):
        damaged = bytearray(messages[other])
        damaged[at] ^= 1
        messages[other] = bytes(damaged)
    is_look = at < len(raw + header + body_head) or at == len(messages[0]) - 1
    whole = min(count, other) if is_look else count
    stencil = PublishStencil(raw, BasicPublish("", "", False, False))
    found, end, _ = stencil.cut(b"".join(messages), 0, count, 131_072, 131_072)
    assert found == [message[len(raw) :] for message in messages[:whole]]
    assert end == (whole * len(messages[0]) if whole else end)
