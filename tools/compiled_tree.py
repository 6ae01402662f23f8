"""Where the compiled build of this checkout is, and whether it is one of the sources as they are.

`build/compiled` has the package as links to `src`, and beside the hot modules what was made of them
(`tools/compile_hot.py`). Nothing but the standard library is used: `.venv/bin/sluicemq` asks here.

python tools/compiled_tree.py        prints the folder of the package that is to run
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "src"
PACKAGE: Final = SOURCES / "sluicemq"
TREE: Final = ROOT / "build" / "compiled"
"""What stands before `src` on the path of whoever runs the compiled build."""

MODULES: Final = ROOT / "tools" / "compiled.txt"
"""The modules that are compiled, by their paths in the package, one a line."""

STAMP: Final = TREE / "fingerprint"
"""Written last, so that without it there is no compiled build."""

SEEN: Final = TREE / "seen"
"""What the files were like when the build was last found to be of these sources: so that not every
start has to read them all, which takes it a tenth of its CPU time."""

SETTLED_NS: Final = 1_000_000_000
"""How long ago a file must have changed to be told from what it is after the next change. (A clock
of files goes by ticks of some milliseconds.)"""

BELOW: Final = (
    "access",
    "amqp",
    "chain",
    "cluster",
    "flow",
    "host",
    "kernel",
    "metadata",
    "model",
    "queues",
    "raft",
    "replication",
    "routing",
    "storage",
)
"""The packages that hot modules are in, or know of: constants and types of these are compiled in.
(Those above them, in the order of .importlinter, they cannot know.)"""

MAKERS: Final = ("requirements.lock", "tools/compile_hot.py", "tools/compiled.txt")
"""What else decides what comes out."""


def parts() -> list[Path]:
    """Return the files that decide what comes out."""
    files = [*PACKAGE.glob("*.py")]
    for package in BELOW:
        files += (PACKAGE / package).rglob("*.py")
    files += (ROOT / name for name in MAKERS)
    return sorted(files)


def fingerprint() -> str:
    """Return what the compiled build depends on, as one hash: names and contents of files, the
    folders of the package, and this Python."""
    folders = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    state = sha256(f"{sys.version} {sys.platform} {folders}".encode())
    for path in parts():
        content = path.read_bytes()
        state.update(f"\n{path.relative_to(ROOT)} {len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()


def looks() -> list[str]:
    """Return the look of each folder of the package, and of each file that `fingerprint` reads."""
    folders = [each for each in PACKAGE.rglob("*/") if each.name != "__pycache__"]
    places = [PACKAGE, *sorted(folders), *parts()]
    return [look(str(each.relative_to(ROOT))) for each in places]


def look(name: str) -> str:
    """Return the size of a file or folder and when it last changed, before its name. Nobody can set
    that time back, so what looks the same is the same. Raises OSError when it is gone."""
    state = os.stat(f"{ROOT}/{name}")
    return f"{state.st_ctime_ns} {state.st_size} {name}"


def is_unwanted() -> bool:
    """Tell whether the environment says that the sources are to run."""
    return os.environ.get("SLUICEMQ_COMPILE") == "0"


def is_fresh() -> bool:
    """Tell whether there is a compiled build of the sources as they are."""
    try:
        stamp = STAMP.read_text()
    except FileNotFoundError:
        return False
    if is_seen(stamp):
        return True
    seen = looks()
    if stamp != fingerprint():
        return False
    newest = max(int(each.partition(" ")[0]) for each in seen)
    if newest < time.time_ns() - SETTLED_NS:
        note_seen(stamp, seen)
    return True


def is_seen(stamp: str) -> bool:
    """Tell whether all looks as it did when this build was last found to be of these sources."""
    try:
        first, *seen = SEEN.read_text().splitlines()
        return first == of_this_python(stamp) and all(
            look(each.split(" ", 2)[2]) == each for each in seen
        )
    except (OSError, ValueError):
        return False


def of_this_python(stamp: str) -> str:
    """Return the fingerprint of a build, and this Python, in a line."""
    return " ".join([stamp, *sys.version.split(), sys.platform])


def note_seen(stamp: str, seen: list[str]) -> None:
    """Note what the files of this build's sources look like. Where nothing can be written, each
    start reads them all."""
    written = SEEN.with_name(f"{SEEN.name}.{os.getpid()}")
    with suppress(OSError):
        written.write_text("\n".join([of_this_python(stamp), *seen]))
        written.replace(SEEN)


def tree_to_run() -> Path:
    """Return the folder in which the package is that is to run: the compiled build, if there is one
    of these sources and SLUICEMQ_COMPILE=0 does not forbid it, else the sources."""
    return TREE if not is_unwanted() and is_fresh() else SOURCES


if __name__ == "__main__":
    print(tree_to_run())
