"""Say clearly when there is no Java 17 or newer: Spark needs it. Run by `make`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

JAVA_MIN = 17
ADVICE = "On Debian and Ubuntu: apt install openjdk-17-jre-headless"


def major_version(text: str) -> int:
    """17 from `openjdk version "17.0.15" ...`, 8 from `java version "1.8.0_392"`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0


def main() -> None:
    """Look where Spark will look: JAVA_HOME, then PATH."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        sys.exit(f"sluicemq: Spark needs Java {JAVA_MIN} or newer; {java} is not there. {ADVICE}")
    found = major_version(result.stderr + result.stdout)
    if found < JAVA_MIN:
        sys.exit(f"sluicemq: Spark needs Java {JAVA_MIN} or newer; {java} is {found}. {ADVICE}")


if __name__ == "__main__":
    main()
