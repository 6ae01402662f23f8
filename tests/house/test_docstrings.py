"""Goal: a docstring can be understood without reading the code. Method: every one is measured.

What a test can see is the form: at least WORDS_MIN words, a full stop at the end, and more than a
reference to another place. An override that only keeps its base's promise needs no docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.statements import statements

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sluicemq"
WORDS_MIN = 5

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented(tree: ast.AST) -> Iterator[tuple[Documented, str]]:
    """All public classes and functions, also nested ones, that have a docstring."""
    for node in statements(tree):
        if isinstance(node, Documented) and not node.name.startswith("_"):
            text = ast.get_docstring(node)
            if text is not None:
                yield node, text


def is_sentence(text: str) -> bool:
    refers = text.startswith("See ")
    return len(text.split()) >= WORDS_MIN and text.endswith(".") and not refers


def test_every_docstring_is_a_sentence() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node, text in documented(ast.parse(path.read_text(encoding="utf-8")))
        if not is_sentence(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ("Return the number of messages.", True),
        ("Return the messages.", False),
        ("Is the queue empty by now?", False),
        ("See the base class for all of this.", False),
        ("Return the number of messages", False),
    ],
)
def test_the_rule(text: str, is_good: bool) -> None:
    assert is_sentence(text) is is_good
