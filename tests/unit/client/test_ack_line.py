"""Goal: what is settled is acknowledged, what nobody wants is rejected, and nothing else.
Method: any order, against a set.
"""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.frames import PROTOCOL_HEADER
from sluicemq.amqp.methods import BasicAck, BasicReject
from sluicemq.client.consuming import AckLine, Subscription
from sluicemq.client.wire import Wire


def tags_of(frames: bytes, out: set[int], rejected: set[int] | None = None) -> set[int]:
    """What a broker makes of the frames, when these tags are out. It closes the channel for a tag
    that is not."""
    connection = AmqpConnection(SERVER)
    connection.receive_data(PROTOCOL_HEADER + frames)
    connection.next_event()
    found: set[int] = set()
    while (event := connection.next_event()) is not None:
        if isinstance(event, Acks):
            found.update(event.tags)
        else:
            assert isinstance(event, MethodFrame)
            method = event.method
            assert isinstance(method, (BasicAck, BasicReject))
            assert method.delivery_tag in out - found
            if isinstance(method, BasicReject):
                assert rejected is not None and not method.requeue
                rejected.add(method.delivery_tag)
                found.add(method.delivery_tag)
            else:
                found.update(tag for tag in out if tag <= method.delivery_tag)
    return found


class SentWire:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    def call_all(self, _calls: object) -> None:
        """The consumer is there."""

    def send_bytes(self, frames: bytes) -> None:
        self.sent += frames


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=12), st.randoms(), st.sets(st.integers(1, 60))
)
def test_the_rejected_of_ranges_in_any_order_are_rejected(
    sizes: list[int], dice: object, unwanted: set[int]
) -> None:
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    ranges = [(end - size + 1, end) for end, size in zip(ends, sizes, strict=True)]
    out = set(range(1, ends[-1] + 1))
    unwanted &= out
    dice.shuffle(ranges)  # type: ignore[attr-defined]
    wire = SentWire()
    subscription = Subscription(cast(Wire, wire), "q", 0)
    rejected: set[int] = set()
    for first, last in ranges:
        wire.sent = b""
        here = [tag for tag in range(first, last + 1) if tag in unwanted]
        subscription.acknowledge(first, last, here)
        assert tags_of(wire.sent, out, rejected) == set(range(first, last + 1))
        out -= set(range(first, last + 1))
    assert rejected == unwanted


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.randoms())
def test_ranges_are_acknowledged_in_any_order(sizes: list[int], dice: object) -> None:
    ranges: list[tuple[int, int]] = []
    for size in sizes:
        first = ranges[-1][1] + 1 if ranges else 1
        ranges.append((first, first + size - 1))
    out = set(range(1, ranges[-1][1] + 1))
    dice.shuffle(ranges)  # type: ignore[attr-defined]
    line = AckLine()
    for first, last in ranges:
        wanted = set(range(first, last + 1))
        assert tags_of(line.settle(first, last), out) == wanted
        out -= wanted
    assert not out


def test_what_comes_in_order_takes_one_frame() -> None:
    line = AckLine()
    assert line.settle(1, 1000) == BasicAck(1000, multiple=True).frame(1)
    assert line.settle(1001, 1500) == BasicAck(1500, multiple=True).frame(1)
