"""Goal: the memory of large contents is used again when nobody has them any more, never before
that, and not kept for long.

Method: contents that are lent, held and dropped by hand; the size of one is above what Python
shares.
"""

from __future__ import annotations

from sluicemq.amqp.pieces import Pieces
from sluicemq.amqp.room import STOCK_ROOMS_MAX, Room, RoomStock

SIZE = 1000


def content(stock: RoomStock, octet: bytes, size: int = SIZE) -> bytes:
    """A content of that octet, read into room of the stock."""
    room = Room(octet, Pieces(), size, stock)
    free = room.free()
    free[:] = octet * len(free)
    room.filled(len(free))
    return room.joined(octet)


def test_a_content_that_nobody_has_makes_room_for_the_next_one() -> None:
    stock = RoomStock()
    first = content(stock, b"1")
    place = id(first)
    del first
    second = content(stock, b"2")
    assert id(second) == place
    assert second == b"2" * SIZE
    assert stock.size == SIZE


def test_a_content_that_somebody_has_or_looks_at_stays_as_it_is() -> None:
    stock = RoomStock()
    first = content(stock, b"1")
    view = memoryview(content(stock, b"2"))[5:10]
    others = [content(stock, b"3") for _ in range(5)]
    assert first == b"1" * SIZE
    assert view == b"22222"
    assert others == [b"3" * SIZE] * 5


def test_room_of_another_size_is_made_anew() -> None:
    stock = RoomStock()
    content(stock, b"1")
    assert content(stock, b"2", SIZE - 1) == b"2" * (SIZE - 1)
    assert content(stock, b"3") == b"3" * SIZE


def test_a_content_that_comes_short_does_not_show_what_was_there() -> None:
    stock = RoomStock()
    content(stock, b"1")
    room = Room(b"2", Pieces(), SIZE, stock)
    assert room.joined(b"2") == b"2"
    assert room.joined() == b""


def test_of_many_contents_only_the_last_ones_are_kept() -> None:
    stock = RoomStock(3 * SIZE)
    held = [content(stock, bytes((number,))) for number in range(5)]
    assert stock.size == 3 * SIZE
    assert stock.lent == held[2:]
    for number in range(2 * STOCK_ROOMS_MAX):
        content(stock, b"1", 2 + number % 100)
    assert len(stock.lent) <= STOCK_ROOMS_MAX
    assert stock.size == sum(map(len, stock.lent)) <= 3 * SIZE
    unused = RoomStock(0)
    assert content(unused, b"1") == b"1" * SIZE
    assert unused.lent == []


def test_everything_is_given_back_soon_after_the_last_content() -> None:
    stock = RoomStock()
    content(stock, b"1")
    stock.settle()
    assert stock.size == SIZE
    stock.settle()
    assert (stock.size, stock.lent) == (0, [])
