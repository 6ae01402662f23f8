"""Goal: the tree stays readable. Method: every Python file is parsed and measured.

The limits are those of CONTRIBUTING.md. Generated code (amqp/methods.py) may be long and flat: its
source is the tool that writes it, which is held to the limits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support.statements import statements

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "tools", "bench", "examples", "fuzz")
GENERATED = {"src/sluicemq/amqp/methods.py"}
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

DOTTED = re.compile(r"\bsluicemq(\.\w+)+")
IMPORTED = re.compile(r"\bfrom (sluicemq[\w.]*) import (?:\(([^)]*)\)|(.*))")

BANNED = {
    "TO" + "DO": "do it, or write an issue",
    "FIX" + "ME": "mend it, or write an issue",
    "X" + "XX": "say what is wrong",
    "assert " + "True": "a test that cannot fail tests nothing",
}


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")))


@dataclass(frozen=True, slots=True)
class Facts:
    """What is held against the rules of one file."""

    has_docstring: bool
    functions: list[tuple[int, str, int]]
    """Line, name and length of each."""
    swallowing: list[int]
    """The lines of handlers in which any error ends and nobody hears of it."""


@cache
def facts_of(path: Path) -> Facts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    facts = Facts(bool(ast.get_docstring(tree)), [], [])
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            facts.functions.append((node.lineno, node.name, length))
        elif isinstance(node, ast.ExceptHandler) and swallows(node):
            facts.swallowing.append(node.lineno)
    return facts


def swallows(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    is_any = isinstance(handler.type, ast.Name) and handler.type.id in (
        "Exception",
        "BaseException",
    )
    return is_any and all(isinstance(statement, ast.Pass) for statement in handler.body)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def written() -> Iterator[Path]:
    """The files that people write."""
    return (path for path in files() if name(path) not in GENERATED)


def test_every_file_says_first_what_it_is() -> None:
    """An empty one (`__init__.py` of a folder of tests) has nothing to say."""
    silent = [path for path in files() if not facts_of(path).has_docstring]
    assert [name(path) for path in silent if path.stat().st_size] == []


def test_no_file_is_too_long() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in written()}
    assert {path: n for path, n in lengths.items() if n > FILE_LINES_MAX} == {}


def test_no_function_is_too_long() -> None:
    found = [
        f"{name(path)}:{line} {function}: {length} lines"
        for path in written()
        for line, function, length in facts_of(path).functions
        if length > FUNCTION_LINES_MAX
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
    found = [f"{name(path)}:{line}" for path in files() for line in facts_of(path).swallowing]
    assert found == []


def test_every_module_of_the_package_is_used() -> None:
    """A module that only its tests import is dead."""
    users = [path for path in files() if not name(path).startswith("tests/")]
    others = [ROOT / "pyproject.toml", ROOT / "Makefile"]
    used = {module for path in (*users, *others) for module in used_by(path)}
    modules = {module_of(path) for path in users if name(path).startswith("src/")}
    assert {
        each for each in modules - used if not each.endswith((".__init__", ".__main__"))
    } == set()


def used_by(path: Path) -> set[str]:
    """The modules, and whatever else may be one, whose names are in a file; not its own."""
    text = path.read_text(encoding="utf-8")
    found = {match[0] for match in DOTTED.finditer(text)}
    for package, several, one in IMPORTED.findall(text):
        found.update(f"{package}.{word}" for word in re.findall(r"\w+", several or one))
    parents = {each[: dot.start()] for each in found for dot in re.finditer(r"\.", each)}
    return (found | parents) - {module_of(path)}


def module_of(path: Path) -> str:
    """What a file of `src` is when it is imported."""
    return name(path).removeprefix("src/").removesuffix(".py").replace("/", ".")
