"""Units of virtual time, which counts in nanoseconds."""

from __future__ import annotations

from typing import Final

MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""
