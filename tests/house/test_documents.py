"""Goal: the documents tell the truth where that can be checked. Method: links are followed, files
that are named are looked for, and the README's example is run against a broker.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from sluicemq.cli.group import sluicemq
from sluicemq.config import SECTIONS
from sluicemq.options import options_of
from support import broker

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
SOURCE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    links = [link for link, _ in LINK.findall(text_of(path)) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them (`make docs`)."""
    prose = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", prose, re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "]", heading)).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", words))
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_anchor_is_a_heading(path: Path) -> None:
    named = re.findall(r"\]\(([^)#\s:]*\.md)?#([^)\s]+)\)", text_of(path))
    missing = [
        f"{page}#{anchor}"
        for page, anchor in named
        if anchor not in anchors_of(path.parent / page if page else path)
    ]
    assert missing == []


def test_the_site_has_every_page() -> None:
    nav = text_of(ROOT / "tools" / "site" / "mkdocs.yml").partition("\nnav:\n")[2]
    listed = re.findall(r"([\w-]+\.md)$", nav, re.MULTILINE)
    elsewhere = {"architecture.md", "contributing.md", "benchmarks.md", "changelog.md"}
    assert sorted(set(listed)) == sorted(listed)
    assert set(listed) - elsewhere == {path.name for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_source_file_that_is_named_exists(path: Path) -> None:
    places = (ROOT, ROOT / "src" / "sluicemq")
    named = SOURCE.findall(text_of(path))
    assert [n for n in named if not any((place / n).exists() for place in places)] == []


def test_everything_that_examples_import_exists() -> None:
    imports = re.compile(r"^ *from (sluicemq[\w.]*) import (\w+(?:, \w+)*)$", re.MULTILINE)
    named = {each for path in DOCUMENTS for each in imports.findall(text_of(path))}
    assert named
    wanted = [(module, name) for module, names in sorted(named) for name in names.split(", ")]
    missing = [each for each in wanted if not hasattr(import_module(each[0]), each[1])]
    assert missing == []


@pytest.mark.parametrize("name", ["README.md", "docs/rabbitmq-differences.md"])
def test_each_thing_has_one_row(name: str) -> None:
    """Where a table says what there is, each row begins with another thing."""
    lines = text_of(ROOT / name).splitlines()
    first = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    things = [cell for cell in first if cell not in {"", "where"}]
    assert sorted(set(things)) == sorted(things)


def test_every_option_named_in_the_documents_exists() -> None:
    """`flow.window_floor` and its like, wherever they are written."""
    known = {
        f"{section}.{field.name}"
        for section, declared in SECTIONS.items()
        for field, _ in options_of(declared)
    } | {"flow.profile"}
    option = re.compile(r"`((?:net|flow|memory|auth)\.[a-z_]+)(?: = [^`]*)?`")
    named = {name for path in DOCUMENTS for name in option.findall(text_of(path))}
    assert named
    assert named - known == set()


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", text_of(ROOT / "README.md"), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) == 6
    with broker.serving(tmp_path) as target:
        placed = example.replace('("127.0.0.1")', f'("127.0.0.1", {target.port})')
        command = [sys.executable, "-c", placed]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (run.stdout, run.stderr) == ("b'Hello, sluice!'\n", "")


def test_the_readme_names_every_command() -> None:
    readme = text_of(ROOT / "README.md")
    for command in ("make demo", "make test", "make setup", "sluicemq serve", "sluicemq ctl"):
        assert command in readme


def options(group: click.Group, path: str) -> Iterator[tuple[str, click.Option]]:
    """Every option of every command below a group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from options(command, f"{path} {name}")
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield f"{path} {name} {parameter.opts[0]}", parameter


def test_every_option_says_what_it_does() -> None:
    """docs/cli.md is made from these words."""
    assert [path for path, option in options(sluicemq, "sluicemq") if not option.help] == []
