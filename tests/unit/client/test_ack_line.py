"""Goal: what is settled is acknowledged, and nothing else. Method: any order, against a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.frames import PROTOCOL_HEADER
from sluicemq.amqp.methods import BasicAck
from sluicemq.client.consuming import AckLine


def tags_of(frames: bytes, out: set[int]) -> set[int]:
    """What a broker makes of the frames, when these tags are out."""
    connection = AmqpConnection(SERVER)
    connection.receive_data(PROTOCOL_HEADER + frames)
    connection.next_event()
    found: set[int] = set()
    while (event := connection.next_event()) is not None:
        if isinstance(event, Acks):
            found.update(event.tags)
        else:
            assert isinstance(event, MethodFrame)
            assert isinstance(event.method, BasicAck)
            found.update(tag for tag in out if tag <= event.method.delivery_tag)
    return found


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
