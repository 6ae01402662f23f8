"""Goal: the tree stays readable. Method: every Python file is parsed and measured.

The limits are those of CONTRIBUTING.md. Generated code (amqp/methods.py) may be long and flat: its
source is the tool that writes it, which is held to the limits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "tools", "bench", "examples", "fuzz")
GENERATED = {"src/sluicemq/amqp/methods.py"}
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

BANNED = {
    "TO" + "DO": "do it, or write an issue",
    "FIX" + "ME": "mend it, or write an issue",
    "X" + "XX": "say what is wrong",
    "assert " + "True": "a test that cannot fail tests nothing",
}


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def written() -> Iterator[Path]:
    """The files that people write."""
    return (path for path in files() if name(path) not in GENERATED)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_file_says_first_what_it_is() -> None:
    """An empty one (`__init__.py` of a folder of tests) has nothing to say."""
    silent = [path for path in files() if not ast.get_docstring(tree_of(path))]
    assert [name(path) for path in silent if path.stat().st_size] == []


def test_no_file_is_too_long() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in written()}
    assert {path: n for path, n in lengths.items() if n > FILE_LINES_MAX} == {}


def test_no_function_is_too_long() -> None:
    found = [
        f"{name(path)}:{node.lineno} {node.name}: {lines_of(node)} lines"
        for path in written()
        for node in functions(tree_of(path))
        if lines_of(node) > FUNCTION_LINES_MAX
    ]
    assert found == []


@pytest.mark.parametrize("word", BANNED)
def test_no_file_has_a_banned_word(word: str) -> None:
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    found = [
        f"{name(path)}:{number}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == [], BANNED[word]


def test_no_error_is_swallowed() -> None:
    """`except: pass` hides what went wrong; contextlib.suppress at least names it."""
    found = [
        f"{name(path)}:{node.lineno}"
        for path in files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and (
            node.type is None
            or (
                isinstance(node.type, ast.Name)
                and node.type.id in ("Exception", "BaseException")
                and all(isinstance(statement, ast.Pass) for statement in node.body)
            )
        )
    ]
    assert found == []


def test_every_module_of_the_package_is_used() -> None:
    """A module that only its tests import is dead."""
    users = [path for path in files() if not name(path).startswith("tests/")]
    sources = {path: path.read_text() for path in (*users, ROOT / "pyproject.toml")}
    makefile = (ROOT / "Makefile").read_text()
    dead = []
    for path in files():
        if not name(path).startswith("src/") or path.stem in ("__init__", "__main__"):
            continue
        dotted = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        package, _, module = dotted.rpartition(".")
        imported = re.compile(
            rf"{re.escape(dotted)}\b|from {re.escape(package)} import (\([^)]*|.*)\b{module}\b"
        )
        others = (text for other, text in sources.items() if other != path)
        if not imported.search(makefile) and not any(imported.search(text) for text in others):
            dead.append(dotted)
    assert dead == []
