"""Make the project's virtual environment: `python3 tools/prepare.py .venv`.

Run by `make` with the system's Python, so nothing but the standard library is used, and the check
of the version comes before anything that an old Python would stumble over.
"""

import subprocess
import sys
from pathlib import Path

PYTHON_MIN = (3, 11)
ROOT = Path(__file__).resolve().parent.parent

FROM_FILES = "pyspark_from_files.pth"
WITHOUT_ARCHIVE = (
    "import sys; sys.path[:] = [each for each in sys.path if not each.endswith('/pyspark.zip')]"
)
"""Spark puts an archive of pyspark's sources before pyspark itself, and each of its Python
processes would compile them anew, for a second."""


def fail(message: str) -> None:
    """Say it and stop."""
    sys.exit("sluicemq: " + message)


def make_venv(venv: Path) -> Path:
    """The environment's Python; made anew when there is none that works."""
    python = venv / "bin" / "python"
    works = (
        python.exists()
        and subprocess.run(
            [str(python), "-m", "pip", "--version"], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not works:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=False)
        if made.returncode:
            fail("python3 -m venv failed; on Debian and Ubuntu: apt install python3-venv")
    return python


def install(python: Path) -> None:
    """Every pinned package, then this one from its sources."""
    count = len((ROOT / "requirements.lock").read_text().split())
    print(f"Installing {count} packages (about 600 MB to fetch, once) ...", flush=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
    ours = ["--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    # The lock names all that anything needs, so nobody has to look for more. What is imported of it
    # is compiled then: a part.
    locked = ["--no-deps", "--no-compile", "--requirement", str(ROOT / "requirements.lock")]
    for arguments in (locked, ours):
        if subprocess.run(pip + arguments, check=False).returncode:
            fail("pip could not install the packages; its message stands above")


def import_from_files(packages: Path) -> None:
    """Have each Python of the environment import pyspark from its files, compiled once."""
    (packages / FROM_FILES).write_text(WITHOUT_ARCHIVE + "\n")


def packages_of(python: Path) -> Path:
    """The folder of the environment's packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([str(python), "-c", program], text=True).strip())


def main() -> None:
    """Check, make, install."""
    if sys.version_info < PYTHON_MIN:
        found = ".".join(str(part) for part in sys.version_info[:3])
        fail("Python 3.11 or newer is needed, this is " + found + "; try: make PYTHON=python3.11")
    python = make_venv(Path(sys.argv[1]))
    install(python)
    import_from_files(packages_of(python))


if __name__ == "__main__":
    main()
