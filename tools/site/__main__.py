"""Build the site of the documents: `make docs`, into out/docs/site.

The documents are staged: with those at the top of the tree beside them, links put right, and lists
as this Markdown wants them. A link, an anchor or a page that leads nowhere ends the build. What
builds it is in an environment of its own, from pinned packages.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "out" / "docs"

BESIDE = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "benchmarks.md",
}
"""What stands elsewhere in the tree, and its page."""

LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s:]+)(#[^)]*)?\)")
FENCE = re.compile(r"^(?:```|~~~)")
ITEM = re.compile(r"(?:[-*]|[0-9]+\.) ")


def prepare() -> Path:
    """The Python that builds; its environment is made anew when the pins have changed."""
    place = OUT / "environment"
    python = place / "bin" / "python"
    pins, stamp = HERE / "requirements.txt", place / "pins.txt"
    if not stamp.exists() or stamp.read_text() != pins.read_text():
        print("Installing what builds the site ...", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--requirement", str(pins)], check=True)
        stamp.write_text(pins.read_text())
    return python


def stage(place: Path) -> None:
    """All pages below `place`."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "docs", place)
    pages = {(ROOT / "docs" / path.relative_to(place)): path for path in place.rglob("*.md")}
    pages |= {ROOT / name: place / page for name, page in BESIDE.items()}
    for written, page in pages.items():
        text = relinked(written.read_text(encoding="utf-8"), written, page, place)
        page.write_text(spaced(text), encoding="utf-8")


def relinked(text: str, written: Path, page: Path, place: Path) -> str:
    """A page's text with links from where it is staged. A file that is no page of the site is named
    as what it is: a path in the sources."""

    def replaced(match: re.Match[str]) -> str:
        words, link, anchor = match.groups("")
        target = (written.parent / link).resolve()
        if not target.is_relative_to(ROOT):
            return match[0]
        name = str(target.relative_to(ROOT))
        there = place / BESIDE.get(name, name.removeprefix("docs/"))
        if name in BESIDE or name.startswith("docs/"):
            return f"[{words}]({relative(there, page.parent)}{anchor})"
        return words if name in words else f"{words} (`{name}`)"

    return LINK.sub(replaced, text)


def relative(target: Path, folder: Path) -> str:
    """The way from a folder to a file."""
    ups = 0
    while not target.is_relative_to(folder):
        folder = folder.parent
        ups += 1
    return "../" * ups + str(target.relative_to(folder))


def spaced(text: str) -> str:
    """A page's text with a blank line before each list, which this Markdown needs."""
    lines: list[str] = []
    in_fence = False
    for line in text.splitlines():
        in_fence ^= bool(FENCE.match(line))
        before = lines[-1] if lines else ""
        begins = ITEM.match(line) and before and not before[0].isspace() and not ITEM.match(before)
        if begins and not in_fence and not is_in_list(lines):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def is_in_list(lines: list[str]) -> bool:
    """Does the paragraph that these lines end with belong to a list?"""
    for line in reversed(lines):
        if not line:
            return False
        if ITEM.match(line):
            return True
    return False


def configuration() -> str:
    """mkdocs' configuration, with the decisions in the order of their numbers."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    entries = "\n".join(f"      - decisions/{name}" for name in decisions)
    text = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    return text.replace("DECISIONS", f"  - Decisions:\n{entries}")


def main() -> None:
    """Prepare, stage, build."""
    python = prepare()
    stage(OUT / "stage")
    (OUT / "mkdocs.yml").write_text(configuration(), encoding="utf-8")
    command = [str(python), "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run([*command, "--config-file", str(OUT / "mkdocs.yml")], check=False)
    if done.returncode:
        sys.exit(done.returncode)
    print(f"the site is ready: python3 -m http.server --directory {OUT / 'site'}")


if __name__ == "__main__":
    main()
