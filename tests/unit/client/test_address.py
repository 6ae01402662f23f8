"""Goal: AMQP URLs mean what they mean elsewhere, or are refused. Method: by value."""

from __future__ import annotations

import pytest

from sluicemq.client.address import Address
from sluicemq.errors import Refused


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("amqp://localhost", Address("localhost")),
        ("amqp://h:5673/", Address("h", 5673)),
        ("amqp://me:s%40cret@h/v%2Fhost", Address("h", 5672, "me", "s@cret", "v/host")),
        ("amqp://[::1]:5674/%2f", Address("::1", 5674)),
        ("amqps://h", Address("h", 5671, secure=True)),
    ],
)
def test_a_url_is_taken_apart(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize("url", ["", "localhost:5672", "http://h", "amqp://", "amqp://h:port"])
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="is not an AMQP URL"):
        Address.parse(url)


def test_an_address_is_shown_without_its_password() -> None:
    assert str(Address("h", 1, "me", "secret", "v")) == "amqp://me@h:1/v"


def test_a_refused_url_is_shown_without_its_password() -> None:
    with pytest.raises(Refused) as refused:
        Address.parse("http://me:sec@ret@h/")
    assert "ret" not in str(refused.value)
    assert "http://me:...@h/" in str(refused.value)
