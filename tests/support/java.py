"""What every JVM that a test starts is told.

It shall compile quickly, and map Spark's classes from the archive that `make test` has written, if
there is one (tools/archive_classes.py).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ARCHIVE: Final = Path(sys.prefix) / "spark.jsa"
MAPPED: Final = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
OPTIONS: Final = QUICK + MAPPED


def set_options() -> None:
    """Tell it to JVMs that this process or one of its children starts from now on."""
    os.environ["JAVA_TOOL_OPTIONS"] = OPTIONS
