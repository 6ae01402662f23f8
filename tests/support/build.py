"""Which build of the package the processes run that tests start.

BUILD is the folder that stands before all others on their path: the compiled build, if there is one
of these sources (a whole run of the tests makes it first, and `make setup` does), else the sources,
as with SLUICEMQ_COMPILE=0. Brokers run it, and simulations in processes of their own
(tests/sim/seed_pool.py), whose traces are held against those of the sources. What tests import
themselves is the sources, always; so are programs that change the code they run: planted bugs, and
faults on demand. Nothing of the package is imported here, so that a process may still choose.
"""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Final


def build_of(sources: Path) -> Path:
    """Return the folder of the build of these sources that is to run."""
    tool = sources.parent / "tools" / "compiled_tree.py"
    if not tool.exists():
        return sources
    found: Path = runpy.run_path(str(tool))["tree_to_run"]()
    return found


PACKAGE: Final = find_spec("sluicemq")
assert PACKAGE is not None
assert PACKAGE.origin is not None
SOURCES: Final = Path(PACKAGE.origin).parents[1]
BUILD: Final = build_of(SOURCES)
