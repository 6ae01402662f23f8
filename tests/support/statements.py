"""The statements of a Python file, without the expressions in them, which are most of its tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""What statements have in them."""


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The tree, and all statements, handlers of errors and cases of matches below it."""
    yield tree
    for name in BODIES:
        found = getattr(tree, name, ())
        for node in found if isinstance(found, list) else ():
            yield from statements(node)
