"""Numbers as text."""

from __future__ import annotations

import pytest

from sluicemq.spark.pipeline import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.337, "0.34 ms"),
        (3.44, "3.4 ms"),
        (9.96, "10 ms"),
        (34.4, "34 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (1240.0, "1.2 s"),
        (126_000.0, "2.1 min"),
    ],
)
def test_durations_choose_their_unit(value: float | None, text: str) -> None:
    assert formats.duration(value).replace(formats.SPACE, " ") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 %"), (0.05, "5 %"), (0.9913, "99.1 %"), (1, "100 %"), (None, "–")]
)
def test_shares(value: float | None, text: str) -> None:
    assert formats.share(value).replace(formats.SPACE, " ") == text


def test_cpu_time_has_no_needless_digits() -> None:
    assert formats.microseconds(99.94) == f"99.9{formats.SPACE}µs"
    assert formats.microseconds(1511.4) == f"1,511{formats.SPACE}µs"


def test_numbers_are_not_parted_from_their_units() -> None:
    text = formats.unbroken("within 200 ms at 10 % of 2 steps, below 1 s")
    assert text.replace(formats.SPACE, "_") == "within 200_ms at 10_% of 2 steps, below 1_s"


def test_other_numbers() -> None:
    assert formats.rate(12345.6) == "12,346/s"
    assert formats.signed(-0.2) == "0"
    assert formats.signed(1234) == "+1,234"
    assert formats.mebibytes(90 << 20).startswith("90")
    assert formats.limit(None, None) == "none"
    assert formats.limit(1000, None) == "1,000"
    assert formats.limit(10, 0.5) == f"10 (0.5{formats.PERCENT})"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("amqp://guest:secret@host:5672/", "amqp://host:5672"),
        ("amqp://host/vhost", "amqp://host/vhost"),
        ("amqps://u:p@[::1]:5671", "amqps://[::1]:5671"),
    ],
)
def test_passwords_are_never_shown(uri: str, shown: str) -> None:
    assert formats.without_password(uri) == shown
