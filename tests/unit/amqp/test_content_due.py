"""Goal: while no content is wanted nothing of a message is taken in, and nothing else is held up.

Method: random streams of methods and publishes, cut anywhere; the wish is withdrawn and given at
random, and what came is compared with what a connection gives that was never asked to wait.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.connection import AmqpConnection
from sluicemq.amqp.events import AnyPublishes, ContentDue, Event, MethodFrame
from sluicemq.amqp.methods import BasicAck, BasicPublish, QueueDeclare
from sluicemq.errors import ConnectionViolation
from support.thorough import examples
from wire.streams import body, feed, flatten, header, running, with_content

PUBLISH = BasicPublish("", "q")
DECLARE = QueueDeclare("abc").frame(1)


def waiting(connection: AmqpConnection, *chunks: bytes) -> bool:
    """Does the connection stop at a content in these bytes?"""
    connection.wants_content = False
    for chunk in chunks:
        connection.receive_data(chunk)
    event = connection.next_event()
    if isinstance(event, ContentDue):
        assert isinstance(connection.next_event(), ContentDue), "it waits as long as it must"
        return True
    assert event is None
    return False


@pytest.mark.parametrize("fast", [True, False])
def test_publish_waits_as_a_whole_and_what_is_before_it_does_not(fast: bool) -> None:
    connection = running(fast=fast)
    connection.wants_content = False
    message = with_content(1, PUBLISH, b"hello")
    connection.receive_data(DECLARE + message + DECLARE)
    assert isinstance(connection.next_event(), MethodFrame)
    assert isinstance(connection.next_event(), ContentDue)
    assert isinstance(connection.next_event(), ContentDue)
    connection.wants_content = True
    publishes = connection.next_event()
    assert isinstance(publishes, AnyPublishes)
    assert publishes.contents == [message[len(PUBLISH.frame(1)) :]]
    assert isinstance(connection.next_event(), MethodFrame)
    assert connection.next_event() is None


def test_head_of_a_frame_is_enough_to_know() -> None:
    """The rest of a large frame must not be gathered first."""
    method = PUBLISH.frame(1)
    assert not waiting(running(), method[:7])
    assert not waiting(running(), method[:10])
    assert waiting(running(), method[:11])
    connection = running()
    assert feed(connection, [method, header(1, 1000)]) == []
    assert waiting(connection, body(1, bytes(1000))[:7])


def test_header_and_body_of_a_begun_content_wait() -> None:
    connection = running()
    assert feed(connection, [PUBLISH.frame(1)]) == []
    assert waiting(connection, header(1, 3))
    connection.wants_content = True
    assert connection.next_event() is None
    assert waiting(connection, body(1, b"ab"))
    connection.wants_content = True
    assert connection.next_event() is None
    connection.receive_data(body(1, b"c"))
    assert len(flatten([connection.next_event()])) == 1  # type: ignore[list-item]


def test_what_belongs_to_nobody_is_swallowed_at_once() -> None:
    """A channel that was closed from here, and a body that is too large."""
    connection = running()
    connection.ignore_content(1)
    assert not waiting(connection, with_content(1, PUBLISH, b"hello"))
    connection = running()
    connection.max_message_size = 4
    assert len(feed(connection, [PUBLISH.frame(1) + header(1, 5)])) == 1
    assert not waiting(connection, body(1, b"hel"), body(1, b"lo"))


def test_publish_on_a_channel_that_is_not_open_is_for_the_owner_to_judge() -> None:
    connection = running()
    connection.open_channels = {1: None}
    connection.wants_content = False
    connection.receive_data(PUBLISH.frame(2))
    assert isinstance(connection.next_event(), MethodFrame)


def test_violations_are_seen_as_ever() -> None:
    connection = running()
    assert feed(connection, [PUBLISH.frame(1)]) == []
    connection.wants_content = False
    connection.receive_data(DECLARE)
    with pytest.raises(ConnectionViolation, match="UNEXPECTED_FRAME"):
        connection.next_event()


PIECES = st.one_of(
    st.integers(1, 2).map(lambda n: QueueDeclare("q").frame(n)),
    st.integers(1, 9).map(lambda n: BasicAck(n).frame(1)),
    st.tuples(st.integers(1, 2), st.binary(max_size=40), st.sampled_from([20, 131072])).map(
        lambda m: with_content(m[0], PUBLISH, m[1], frame_max=m[2])
    ),
)


MOVES = st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=20)
"""Is content wanted, and how many bytes more come then?"""


@examples(40)
@given(st.lists(PIECES, max_size=12), MOVES, st.booleans())
def test_nothing_is_lost_or_changed_by_waiting(
    pieces: list[bytes], moves: list[tuple[bool, int]], fast: bool
) -> None:
    stream = b"".join(pieces)
    expected = flatten(feed(running(fast=fast), [stream]))
    connection = running(fast=fast)
    came: list[Event | ConnectionViolation] = []
    for wants_content, size in (*moves, (False, len(stream)), (True, 0)):
        connection.wants_content = wants_content
        connection.receive_data(stream[:size])
        stream = stream[size:]
        while (event := connection.next_event()) is not None:
            if isinstance(event, ContentDue):
                assert not connection.wants_content
                break
            assert connection.wants_content or not isinstance(event, AnyPublishes)
            came.append(event)
    came += feed(connection, [b""])
    assert flatten(came) == expected
