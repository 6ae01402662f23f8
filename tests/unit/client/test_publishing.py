"""Goal: never more in flight than the window; what waits is exactly what is not confirmed.

Method: a broker that is a list of tags and confirms them in any order; a dict beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.events import Acks, ContentMethod, Event, MethodFrame
from sluicemq.amqp.methods import BasicAck, BasicNack, BasicReturn
from sluicemq.client.messages import BasicProperties, Messages, body_of, content, publish_frame
from sluicemq.client.publishing import Publisher, RefusedMessage
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import Wire

SIZE = 10
WINDOW = 7


def message(number: int) -> bytes:
    return b"%*d" % (SIZE, number)


class FakeWire:
    """Says what it is told to say."""

    address = "the broker"

    def __init__(self, draw: st.DataObject | None = None) -> None:
        """With `draw`: counts what is written, messages of SIZE, and confirms it in any order."""
        self.draw = draw
        self.timeout_s = 1.0
        self.sent = b""
        self.unconfirmed: dict[int, bytes] = {}
        self.events: list[Event] = []

    def call(self, *_: object) -> None:
        """Confirms are on."""

    def send_bytes(self, frames: bytes) -> None:
        if self.draw is None:
            return
        for at in range(0, len(frames), SIZE):
            self.sent += frames[at : at + SIZE]
            self.unconfirmed[len(self.sent) // SIZE] = frames[at : at + SIZE]
        assert len(self.unconfirmed) <= WINDOW

    def poll(self, timeout_s: float) -> Iterator[Event]:
        if self.draw is not None:
            self.confirm_some(self.draw, at_least=1 if timeout_s else 0)
        while self.events:
            yield self.events.pop(0)

    def confirm_some(self, draw: st.DataObject, at_least: int) -> None:
        tags = sorted(self.unconfirmed)
        chosen = draw.draw(st.permutations(tags)) if tags else []
        chosen = chosen[: draw.draw(st.integers(min(at_least, len(tags)), len(tags)))]
        if chosen and draw.draw(st.booleans()):
            everything = max(chosen) == tags[-1] and draw.draw(st.booleans())
            self.say(BasicAck(0 if everything else max(chosen), multiple=True))
            chosen = [tag for tag in tags if tag <= max(chosen)]
        elif chosen:
            self.events.append(Acks(1, chosen))
        for tag in chosen:
            del self.unconfirmed[tag]

    def say(self, method: BasicAck | BasicNack) -> None:
        self.events.append(MethodFrame(1, method, b""))


def publisher(wire: FakeWire) -> Publisher:
    return Publisher(cast(Wire, wire), WINDOW)


@given(st.data(), st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5))
def test_what_waits_is_what_is_not_confirmed(
    data: st.DataObject, runs: list[tuple[int, bool]]
) -> None:
    wire = FakeWire(data)
    one = publisher(wire)
    given_ = 0
    for count, is_packed in runs:
        messages: Sequence[bytes] = [message(n) for n in range(given_, given_ + count)]
        given_ += count
        one.publish(Messages.of(messages) if is_packed else messages)
        assert wire.sent == b"".join(map(message, range(given_)))
        assert list(one.waiting()) == list(wire.unconfirmed.values())
        assert one.in_flight == len(wire.unconfirmed)
    one.settle()
    assert (one.in_flight, list(one.waiting())) == (0, [])


def test_what_is_not_written_yet_waits_too() -> None:
    wire = FakeWire()
    wire.timeout_s = 0.001
    one = publisher(wire)
    with pytest.raises(BrokerError, match="confirmed nothing"):
        one.publish([message(n) for n in range(20)])
    wire.events = [Acks(1, [3, 1])]
    with pytest.raises(BrokerError, match="confirmed nothing"):
        one.settle()
    left = [n for n in range(20) if n not in (0, 2)]
    assert list(one.waiting()) == [message(n) for n in left]


@pytest.mark.parametrize("tags", [[4], [0], [1, 1], [2, 1, 2]])
def test_a_confirm_of_what_does_not_wait_is_an_error(tags: list[int]) -> None:
    wire = FakeWire()
    wire.events = [Acks(1, tags)]
    with pytest.raises(BrokerError, match=f"delivery tag {tags[-1]}, which is not waiting"):
        publisher(wire).publish([message(n) for n in range(3)])


def test_a_multiple_confirm_of_the_future_is_an_error() -> None:
    wire = FakeWire()
    wire.say(BasicAck(4, multiple=True))
    with pytest.raises(BrokerError, match="delivery tag 4, which is not waiting"):
        publisher(wire).publish([message(n) for n in range(3)])


@pytest.mark.parametrize(
    ("nack", "row"), [(BasicNack(2), 2), (BasicNack(3, multiple=True), 2), (BasicNack(3), 3)]
)
def test_a_negative_confirm_names_its_message(nack: BasicNack, row: int) -> None:
    wire = FakeWire()
    contents = [content(BasicProperties().encode(), b"%d" % n, 4096) for n in range(1, 4)]
    wire.events = [Acks(1, [1])]
    wire.say(nack)
    with pytest.raises(RefusedMessage, match=r"basic\.nack") as refused:
        publisher(wire).publish([publish_frame("", "q", False) + each for each in contents])
    assert refused.value.content == contents[row - 1]


def test_a_return_names_its_message() -> None:
    wire = FakeWire()
    wire.events = [ContentMethod(1, BasicReturn(312, "NO_ROUTE", "e", "k"), b"what it was")]
    with pytest.raises(RefusedMessage, match="exchange 'e' with routing key 'k': 312") as refused:
        publisher(wire).publish([message(0)])
    assert refused.value.content == b"what it was"


@given(st.lists(st.binary(max_size=5), max_size=10), st.integers(0, 10), st.integers(0, 10))
def test_messages_are_a_sequence(messages: list[bytes], start: int, stop: int) -> None:
    packed = Messages.of(messages)
    assert list(packed) == messages
    part = packed[start:stop]
    assert list(part) == messages[start:stop]
    assert part.octets() == b"".join(messages[start:stop])
    assert list(part[1:]) == messages[start:stop][1:]


def test_with_somebody_for_refused_messages_the_others_go_on() -> None:
    wire = FakeWire()
    refused: list[RefusedMessage] = []
    sender = Publisher(cast(Wire, wire), WINDOW, refused.append)
    properties = BasicProperties().encode()
    sender.publish(
        [publish_frame("e", f"k{n}", True) + content(properties, b"%d" % n, 4096) for n in range(5)]
    )
    wire.events.append(Acks(1, [2]))
    wire.say(BasicNack(3, multiple=True))
    wire.events.append(ContentMethod(1, BasicReturn(312, "NO_ROUTE", "e", "k3"), b"content"))
    wire.say(BasicNack(5))
    wire.events.append(Acks(1, [4]))
    sender.settle()
    assert [(each.exchange, each.routing_key) for each in refused] == [
        ("e", "k0"),
        ("e", "k2"),
        ("e", "k3"),
        ("e", "k4"),
    ]
    assert body_of(refused[1].content) == b"2"
    assert (sender.in_flight, sender.waiting()) == (0, [])
