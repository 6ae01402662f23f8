"""Goal: what connections have begun is forgiven up to a bound, and the largest of them close when
that keeps the alarm up, and no more of them than needed.

Method: connections that are no more than what they hold.
"""

from __future__ import annotations

from typing import Any, cast

from sluicemq.chain.channel.connection_port import ConnectionFault
from sluicemq.chain.connection.unfinished import Unfinished, close_holders
from sluicemq.limits import (
    OVERRUN_RATIO,
    UNFINISHED_FORGIVEN_BYTES,
    UNFINISHED_PATIENCE_NS,
    UNFINISHED_RATIO,
)

LIMIT = 1 << 30
MIB = 1 << 20


class Codec:
    def __init__(self, content_bytes: int) -> None:
        self.content_bytes = content_bytes


class Holder:
    """A reader: of what it holds, so much are parts of messages."""

    def __init__(self, held: int, begun: int) -> None:
        self.accounted = held
        self.amqp = Codec(begun)
        self.posted: list[Any] = []

    def post(self, message: object) -> None:
        self.posted.append(message)


def look(unfinished: Unfinished, *holders: Holder, alarmed: bool = True, now_ns: int = 0) -> Any:
    return unfinished.look(cast(Any, holders), alarmed, now_ns)


def test_holders_come_most_first_and_who_holds_nothing_is_none() -> None:
    small, large, none = Holder(5, 5), Holder(90, 10), Holder(0, 0)
    unfinished = Unfinished()
    assert look(unfinished, small, none, large) == [large, small]
    assert unfinished.bytes == 95


def test_what_cannot_be_parsed_is_always_forgiven_and_a_little_of_what_was_begun() -> None:
    unfinished = Unfinished()
    look(unfinished, Holder(100, 30))
    assert unfinished.forgiven_bytes == 100
    begun = UNFINISHED_FORGIVEN_BYTES + 1
    look(unfinished, Holder(begun + 70, begun))
    assert unfinished.forgiven_bytes == 70


def test_patience_begins_with_the_alarm_and_ends() -> None:
    unfinished = Unfinished()
    holder = Holder(LIMIT // 2, LIMIT // 2)
    used = LIMIT + 1
    look(unfinished, holder, now_ns=100)
    before = 100 + UNFINISHED_PATIENCE_NS - 1
    look(unfinished, holder, now_ns=before)
    assert unfinished.too_much(used, LIMIT, before) == 0
    wanted = LIMIT // 2 - int(UNFINISHED_RATIO * LIMIT)
    assert unfinished.too_much(used, LIMIT, before + 1) == wanted
    look(unfinished, holder, alarmed=False, now_ns=before + 2)
    look(unfinished, holder, now_ns=before + 3)
    assert unfinished.too_much(used, LIMIT, before + 4) == 0, "a new alarm, a new patience"


def test_an_overrun_is_not_waited_out() -> None:
    unfinished = Unfinished()
    look(unfinished, Holder(LIMIT // 2, LIMIT // 2))
    used = int(OVERRUN_RATIO * LIMIT) + 2
    wanted = LIMIT // 2 - int((OVERRUN_RATIO - 1) * LIMIT)
    assert unfinished.too_much(used, LIMIT, 0) == wanted


def test_nobody_closes_for_what_others_hold() -> None:
    unfinished = Unfinished()
    look(unfinished, Holder(LIMIT // 2, LIMIT // 2))
    late = UNFINISHED_PATIENCE_NS
    assert unfinished.too_much(3 * LIMIT, LIMIT, late) == 0


def test_a_little_is_left_in_any_case() -> None:
    unfinished = Unfinished()
    held = UNFINISHED_FORGIVEN_BYTES
    look(unfinished, Holder(held, held))
    assert unfinished.too_much(2 * MIB, MIB, UNFINISHED_PATIENCE_NS) == 0


def test_as_few_close_as_are_needed_and_are_told_why() -> None:
    holders = [Holder(50, 50), Holder(30, 30), Holder(20, 20)]
    close_holders(cast(Any, holders), 51)
    assert [len(holder.posted) for holder in holders] == [1, 1, 0]
    (fault,) = holders[0].posted
    assert isinstance(fault, ConnectionFault)
    assert (fault.violation.code, "memory is short" in fault.violation.reply_text) == (506, True)
    close_holders(cast(Any, holders), 0)
    assert len(holders[0].posted) == 1
