"""Password hashes as RabbitMQ's definitions have them: base64(salt of 4 bytes, digest(salt,
password)).

One sha256 of a short text takes a microsecond, so correct passwords are not cached, and a storm of
log-ins costs no more than its handshakes.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from hmac import compare_digest
from typing import Final

from sluicemq.errors import Refused
from sluicemq.text import octets

SALT_BYTES: Final = 4
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"
ALGORITHMS: Final = {
    DEFAULT_ALGORITHM: "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
"""The names of algorithms in hashlib, by RabbitMQ's. md5 is there for definitions of old
brokers."""
NOBODY: Final = b64encode(bytes(36)).decode()
"""The hash that is compared when there is no such user: it takes as long, and no password fits
it."""


def hash_password(password: str, salt: bytes, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """Return the hash of a password, as definitions keep it; `salt` is SALT_BYTES random bytes."""
    assert len(salt) == SALT_BYTES
    return b64encode(salt + digest(password, salt, algorithm)).decode()


def is_right(password: str, password_hash: str, algorithm: str) -> bool:
    """Tell whether a password fits a hash, in a time that reveals nothing about either. An empty
    hash or password lets nobody in, nor does a malformed hash or one of an unknown algorithm, which
    another version may have stored."""
    try:
        raw = b64decode(password_hash or NOBODY)
        salt, kept = raw[:SALT_BYTES], raw[SALT_BYTES:]
        same = compare_digest(digest(password, salt, algorithm), kept)
    except (ValueError, KeyError):
        return False
    return same and bool(password) and bool(password_hash)


def digest(password: str, salt: bytes, algorithm: str) -> bytes:
    name = ALGORITHMS[algorithm]
    return hashlib.new(name, salt + octets(password), usedforsecurity=name != "md5").digest()


def check_hash(password_hash: str, algorithm: str) -> None:
    """Raise Refused for a hash that no password could ever fit, or for an unknown algorithm. An
    empty hash is fine: with it nobody can log in with a password."""
    if algorithm not in ALGORITHMS:
        raise Refused(f"there is no hashing algorithm {algorithm}; there are: {list(ALGORITHMS)}")
    try:
        raw = b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(f"a password hash that is no base64: {error}") from error
    size = SALT_BYTES + hashlib.new(ALGORITHMS[algorithm], usedforsecurity=False).digest_size
    if raw and len(raw) != size:
        raise Refused(f"a password hash of {len(raw)} bytes where {algorithm} makes {size}")
