"""Keeps OpenSSL out of a broker without TLS, in which it would take a sixth of the memory.

asyncio and hashlib use OpenSSL where it is installed, and do without it elsewhere. The broker has
no use for asyncio's TLS: its own is above the sockets (tls.py). So while these two are imported
OpenSSL seems to be missing. Who imports `ssl` later finds it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

OPENSSL: Final = ("ssl", "_ssl", "_hashlib")
"""The modules that have it loaded."""

OWN_HASHES: Final = ("_md5", "_sha1") + (
    ("_sha2",) if sys.version_info >= (3, 12) else ("_sha256", "_sha512")
)
"""Python's own, which some distributions leave out."""


def import_without_openssl() -> None:
    """Import asyncio and hashlib without OpenSSL, unless somebody has imported that, or hashes need
    it here."""
    if any(name in sys.modules for name in OPENSSL) or not all(map(find_spec, OWN_HASHES)):
        return
    for name in OPENSSL:
        sys.modules[name] = None  # type: ignore[assignment]  # which makes an import fail
    try:
        import asyncio  # noqa: F401, PLC0415 (now)
        import hashlib  # noqa: F401, PLC0415
        import hmac  # noqa: F401, PLC0415
    finally:
        for name in OPENSSL:
            del sys.modules[name]
