"""Dead letters byte by byte, as RabbitMQ 3.10 has sent them (the time of death set to 1)."""

from __future__ import annotations

import pytest

from sluicemq.amqp import fields as f
from sluicemq.amqp.properties import (
    EXPIRATION,
    BasicProperties,
    header_frame,
    headers_of,
    text_property,
)
from sluicemq.amqp.types import FieldValue, Timestamp
from sluicemq.chain.queue.death_headers import DeadLetterHeaders, Death
from sluicemq.chain.queue.republish_messages import RepublishMessage
from sluicemq.model.content import properties_of

FIRST = (
    b"\x16x-first-death-exchangeS\x00\x00\x00\x00\x13x-first-death-queueS\x00\x00\x00\x03src"
    b"\x14x-first-death-reasonS\x00\x00\x00"
)
REJECTED = (
    b" \x00\x00\x00\x00\xd3\x07x-deathA\x00\x00\x00lF\x00\x00\x00g"
    b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x01\x06reasonS\x00\x00\x00\x08rejected"
    b"\x05queueS\x00\x00\x00\x03src\x04timeT\x00\x00\x00\x00\x00\x00\x00\x01"
    b"\x08exchangeS\x00\x00\x00\x00\x0crouting-keysA\x00\x00\x00\x08S\x00\x00\x00\x03src"
    + FIRST
    + b"\x08rejected"
)
EXPIRED = (
    b"0\x10\x00\x00\x01\x13\x02CCA\x00\x00\x00\x08S\x00\x00\x00\x03cc1\x01aS\x00\x00\x00\x01x"
    b"\x07x-deathA\x00\x00\x00\x8eF\x00\x00\x00\x89\x05countl\x00\x00\x00\x00\x00\x00\x00\x01"
    b"\x06reasonS\x00\x00\x00\x07expired\x05queueS\x00\x00\x00\x03src"
    b"\x04timeT\x00\x00\x00\x00\x00\x00\x00\x01\x08exchangeS\x00\x00\x00\x00"
    b"\x0crouting-keysA\x00\x00\x00\x10S\x00\x00\x00\x03srcS\x00\x00\x00\x03cc1"
    b"\x13original-expirationS\x00\x00\x00\x0210" + FIRST + b"\x07expired"
    b"\x01zI\x00\x00\x00\x01\x02\x05guest"
)
COUNTED = (
    b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x02\x08exchangeS\x00\x00\x00\x00"
    b"\x05queueS\x00\x00\x00\x03src\x06reasonS\x00\x00\x00\x08rejected"
    b"\x0crouting-keysA\x00\x00\x00\x08S\x00\x00\x00\x03src\x04timeT\x00\x00\x00\x00\x00\x00\x00\x01"
)


def died(
    properties: bytes, reason: str = "rejected", new_key: str | None = None
) -> RepublishMessage:
    """In "src", where it had come by its name."""
    death = Death("src", reason, 1, b"", b"src", new_key)
    return DeadLetterHeaders(death).letter(header_frame(1, 0, properties))


def test_a_rejected_message_without_properties() -> None:
    letter = died(b"\0\0")
    assert properties_of(letter.content) == REJECTED
    assert letter.keys == ("src",)
    assert letter.banned == frozenset()


def test_an_expired_one_with_headers_user_and_copies() -> None:
    headers = f.table_of(
        [
            (b"z", b"I\x00\x00\x00\x01"),
            (b"CC", f.array([f.long_string(b"cc1")])),
            (b"a", f.long_string(b"x")),
        ]
    )
    asked = BasicProperties(delivery_mode=2, expiration="10", user_id="guest").encode()
    flags = int.from_bytes(asked[:2]) | 1 << 13
    raw = flags.to_bytes(2) + len(headers).to_bytes(4) + headers + asked[2:]
    letter = died(raw, "expired")
    assert properties_of(letter.content) == EXPIRED
    assert letter.keys == ("src", "cc1")
    assert letter.banned == {"src"}


def test_the_same_death_again_is_counted_in_order_of_names() -> None:
    raw = properties_of(died(REJECTED).content)
    deaths = f.value_of(f.fields_of(headers_of(raw)), b"x-death")
    assert deaths is not None
    assert f.items_of(deaths[5:]) == [b"F" + len(COUNTED).to_bytes(4) + COUNTED]


def test_another_key_takes_the_copies_with_it() -> None:
    raw = BasicProperties(headers={"CC": ["cc1"], "a": "x"}).encode()
    letter = died(raw, "maxlen", "other")
    assert letter.keys == ("other",)
    names = [name for name, _ in f.fields_of(headers_of(properties_of(letter.content)))]
    assert names == sorted(names)
    assert b"CC" not in names


def test_a_rejection_on_the_way_breaks_a_circle() -> None:
    def after(*deaths: tuple[str, str]) -> frozenset[str]:
        entries = [{"queue": queue, "reason": reason} for queue, reason in deaths]
        raw = BasicProperties(headers={"x-death": entries}).encode()
        return died(raw, "expired").banned

    assert after(("a", "expired"), ("b", "maxlen")) == {"src", "a", "b"}
    assert after(("a", "expired"), ("b", "rejected"), ("c", "expired")) == {"src", "a"}
    assert after(("a", "rejected"), ("a", "expired")) == {"src"}
    assert after(("src", "rejected")) == {"src"}


def test_what_a_client_has_put_there_is_no_obstacle() -> None:
    strange: FieldValue
    for strange in ("text", 5, ["text", {"queue": 7}], {"queue": "src"}):
        raw = BasicProperties(headers={"x-death": strange}).encode()
        letter = died(raw)
        deaths = f.value_of(f.fields_of(headers_of(properties_of(letter.content))), b"x-death")
        assert deaths is not None
        assert deaths[:1] == b"A"


def deaths_of(letter: RepublishMessage) -> list[object]:
    """As they are read."""
    headers = BasicProperties.decode(properties_of(letter.content)).headers
    assert headers is not None
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    return deaths


@pytest.mark.parametrize(("count", "after"), [(-5, -4), (-1, 0), (2**63 - 1, -(2**63)), (3, 4)])
def test_any_count_is_counted_up(count: int, after: int) -> None:
    known: FieldValue = {"queue": "src", "reason": "rejected", "count": count}
    letter = died(BasicProperties(headers={"x-death": [known]}).encode())
    assert deaths_of(letter) == [{"queue": "src", "reason": "rejected", "count": after}]


def test_old_deaths_without_counts_are_counted_together() -> None:
    four: FieldValue = {"queue": "a", "reason": "expired", "time": Timestamp(1)}
    two: FieldValue = {"queue": "b", "reason": "rejected"}
    counted: FieldValue = {"queue": "c", "reason": "maxlen", "count": 7}
    old = [four, two, four, counted, four, two, four, counted]
    first, *others = deaths_of(died(BasicProperties(headers={"x-death": old}).encode()))
    assert isinstance(first, dict)
    assert (first["queue"], first["count"]) == ("src", 1)
    assert others == [
        {"count": 4, "queue": "a", "reason": "expired", "time": Timestamp(1)},
        {"count": 2, "queue": "b", "reason": "rejected"},
        counted,
    ]


def test_old_deaths_here_are_counted_with_the_new_one() -> None:
    here: FieldValue = {"queue": "src", "reason": "rejected"}
    letter = died(BasicProperties(headers={"x-death": [here] * 4}).encode())
    assert deaths_of(letter) == [{"queue": "src", "reason": "rejected", "count": 5}]


@pytest.mark.parametrize("flaw", [b"\x09x", b"\xff", b"\1bZ", b"\7x-deathA\0\0\0\1F"])
def test_what_is_before_a_flaw_of_the_headers_goes_on_and_the_death_is_counted(flaw: bytes) -> None:
    """A message that does not say where it died would go round for ever."""
    table = b"\1aS\0\0\0\1x" + flaw
    raw = b"\x21\x00" + len(table).to_bytes(4) + table + b"\x0210"
    letter = died(raw, "expired")
    assert letter.keys == ("src",)
    assert letter.banned == {"src"}
    properties = properties_of(letter.content)
    assert text_property(properties, EXPIRATION) is None
    fields = f.fields_of(headers_of(properties))
    assert f.value_of(fields, b"a") == b"S\0\0\0\1x"
    (death,) = deaths_of(letter)
    assert isinstance(death, dict)
    assert (death["queue"], death["count"]) == ("src", 1)
    assert died(properties, "expired").banned == {"src"}
