"""Packages that only some commands need, and that may not be installed."""

from __future__ import annotations

import importlib.util

from sluicemq.errors import Refused


def require(package: str, extra: str) -> None:
    """Raise Refused, with the command that installs it, when an optional package is missing."""
    if importlib.util.find_spec(package) is None:
        raise Refused(f"this command needs {package}: pip install 'sluicemq[{extra}]'")
