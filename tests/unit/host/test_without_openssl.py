"""Goal: what a broker imports without OpenSSL works, and who asks for OpenSSL later has it.

Method: a Python of its own, which has imported neither yet.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from sluicemq.host.without_openssl import import_without_openssl
{before}
import_without_openssl()
import asyncio, hashlib, hmac
print("_ssl" in sys.modules, "_hashlib" in sys.modules, "ssl" in sys.modules)
print(hashlib.new("sha256", b"a", usedforsecurity=True).hexdigest()[:8])
print(hmac.digest(b"key", b"a", "sha256").hex()[:8])
async def nothing(): return "ran"
print(asyncio.run(nothing()))
import ssl
print(ssl.create_default_context().check_hostname, ssl.SSLWantReadError.__module__)
"""


def said(before: str) -> list[str]:
    """What the program prints."""
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_openssl_is_left_out_and_there_for_who_asks_for_it_later() -> None:
    kept_out = ["False False False", "ca978112", "780c3db4", "ran", "True ssl"]
    assert said("") == kept_out


def test_where_python_has_no_hashes_of_its_own_it_stays() -> None:
    assert said("sys.modules['_md5'] = None")[0] == "True True True"


def test_who_has_imported_it_already_keeps_it() -> None:
    assert said("import ssl")[0] == "True True True"
