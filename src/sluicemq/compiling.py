"""Marks for classes that tools/compile_hot.py compiles. In Python they have no effect.

A compiled class is closed: it has only the attributes that it declares, and a Python class can
extend it only if it is marked so (`allow_interpreted_subclasses`).

What is made for each message has two marks more: `free_list_len=1` keeps the memory of the last one
that was freed for the next, and `acyclic` has Python's search for cycles leave out what refers to
plain data only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414 - for others
else:

    def mypyc_attr(**_):
        """Return a decorator that leaves its class as it is."""
        return lambda marked: marked
