"""Goal: one name, one thing. Method: the classes of the whole package are listed by name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from support.statements import statements

SHARED = {"Broker"}
"""The broker itself, and what a user of `sluicemq.testing` knows it by."""

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sluicemq"


def test_a_class_has_its_name_to_itself() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    shared = {
        name: found for name, found in places.items() if len(found) > 1 and name not in SHARED
    }
    assert shared == {}
