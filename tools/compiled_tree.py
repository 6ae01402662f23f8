"""Where the compiled build of this checkout is, and whether it is one of the sources as they are.

`build/compiled` has the package as links to `src`, and beside the hot modules what was made of them
(`tools/compile_hot.py`). Nothing but the standard library is used: `.venv/bin/sluicemq` asks here.

python tools/compiled_tree.py        prints the folder of the package that is to run
"""

from __future__ import annotations

import os
import sys
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


def fingerprint() -> str:
    """Return what the compiled build depends on, as one hash: names and contents of files, the
    folders of the package, and this Python."""
    files = [*PACKAGE.glob("*.py")]
    for package in BELOW:
        files += (PACKAGE / package).rglob("*.py")
    files += (ROOT / name for name in MAKERS)
    folders = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    state = sha256(f"{sys.version} {sys.platform} {folders}".encode())
    for path in sorted(files):
        content = path.read_bytes()
        state.update(f"\n{path.relative_to(ROOT)} {len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()


def is_unwanted() -> bool:
    """Tell whether the environment says that the sources are to run."""
    return os.environ.get("SLUICEMQ_COMPILE") == "0"


def is_fresh() -> bool:
    """Tell whether there is a compiled build of the sources as they are."""
    try:
        return STAMP.read_text() == fingerprint()
    except FileNotFoundError:
        return False


def tree_to_run() -> Path:
    """Return the folder in which the package is that is to run: the compiled build, if there is one
    of these sources and SLUICEMQ_COMPILE=0 does not forbid it, else the sources."""
    return TREE if not is_unwanted() and is_fresh() else SOURCES


if __name__ == "__main__":
    print(tree_to_run())
