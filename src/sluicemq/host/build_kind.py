"""Tells whether the running code is plain Python or was compiled."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

HOT: Final = "sluicemq.kernel.actor"
"""A module that every message passes: any compiled build includes it."""


def build_kind() -> str:
    """Return `compiled` when the hot modules are extension modules, else `pure`."""
    spec = find_spec(HOT)
    origin = spec.origin if spec is not None else None
    return "compiled" if origin and origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
