"""Goal: RabbitMQ's password hashes serve here and ours serve there; nobody gets in by accident.
Method: hashes that RabbitMQ 3.10.8 made, and random passwords.
"""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.model.passwords import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    NOBODY,
    SALT_BYTES,
    check_hash,
    hash_password,
    is_right,
)
from sluicemq.model.users import User, password_fits

SHA256, SHA512, MD5 = ALGORITHMS
RABBITMQ = [
    ("guest", "uOlU1Tapyp04YGKZWzSZSyZl//6fJJAaC+Q3GypHown0ye08", SHA256),
    ("s4cret", "S7KI8eaLfQ6qjNnCrW2iE4yS5QRhrDUGEiDhtkbwRXQbZcKV", SHA256),
    (
        "test12",
        "HgPI4qg2nyTAXZZUevMXyup7AMhqHjAz1OKkKvBPrCcsj/74FlrnJgwL6isl"
        "8PYrRAJA54+NnnmY68PZdPROKVqh90k=",
        SHA512,
    ),
    ("test12", "z1+Nngpm/pnJUzzCMzXciTvEZ4I=", MD5),
]
passwords = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
salts = st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES)
algorithms = st.sampled_from([*ALGORITHMS])


@pytest.mark.parametrize(("password", "password_hash", "algorithm"), RABBITMQ)
def test_rabbitmqs_hashes_are_ours(password: str, password_hash: str, algorithm: str) -> None:
    check_hash(password_hash, algorithm)
    assert is_right(password, password_hash, algorithm)
    assert not is_right(password + "x", password_hash, algorithm)
    salt = b64decode(password_hash)[:SALT_BYTES]
    assert hash_password(password, salt, algorithm) == password_hash


@given(passwords, passwords, salts, algorithms)
def test_only_the_same_password_is_right(
    password: str, other: str, salt: bytes, algorithm: str
) -> None:
    kept = hash_password(password, salt, algorithm)
    check_hash(kept, algorithm)
    assert is_right(other, kept, algorithm) == (other == password)
    assert is_right(password, kept, algorithm)


@given(salts, algorithms)
def test_an_empty_password_is_never_right(salt: bytes, algorithm: str) -> None:
    """Even where its hash is kept, as RabbitMQ does for users without a password."""
    assert not is_right("", hash_password("", salt, algorithm), algorithm)


@given(passwords, algorithms)
def test_nobody_and_who_has_no_password_cannot_log_in(password: str, algorithm: str) -> None:
    assert not password_fits(None, password)
    assert not password_fits(User("u", "", algorithm), password)
    assert not is_right(password, NOBODY, DEFAULT_ALGORITHM)


@pytest.mark.parametrize(
    ("password_hash", "algorithm"),
    [
        ("!", SHA256),
        (RABBITMQ[0][1], SHA512),
        (RABBITMQ[0][1], "rabbit_password_hashing_nonsense"),
        ("YWJj", SHA256),
    ],
)
def test_a_hash_that_could_never_be_right_is_refused(password_hash: str, algorithm: str) -> None:
    with pytest.raises(Refused):
        check_hash(password_hash, algorithm)


def test_no_hash_is_a_hash() -> None:
    """Definitions have it for users without a password."""
    check_hash("", SHA256)
    assert "uOlU" not in repr(User("guest", RABBITMQ[0][1]))
