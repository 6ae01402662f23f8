"""Build what is published: the source distribution, and from that alone the pure wheel.

python tools/dist.py        into dist/
python tools/dist.py DIR    somewhere else
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "docs", "examples", "deploy")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def build_sdist(place: Path) -> Path:
    """The source distribution of this tree, in `place`. It is built in a copy, so that nothing that
    an earlier build has left gets in, and no other process sees files come and go."""
    with tempfile.TemporaryDirectory() as name:
        for path in ROOT.iterdir():
            if path.name in FOLDERS:
                shutil.copytree(path, Path(name, path.name), ignore=LEFT_OUT)
            elif path.is_file():
                shutil.copy2(path, name)
        command = [sys.executable, "-c", SDIST, str(place)]
        subprocess.run(command, cwd=name, check=True, stdout=subprocess.DEVNULL)
    return max(place.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime_ns)


def build_wheel(sdist: Path, place: Path) -> Path:
    """The pure wheel, made of what is in the source distribution and nothing else."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(place)]
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        (sources,) = Path(name).iterdir()
        subprocess.run([*pip, *options, str(sources)], check=True)
    return max(place.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)


def main(arguments: list[str]) -> None:
    """Build both, and say where they are."""
    place = Path(arguments[0] if arguments else ROOT / "dist").absolute()
    place.mkdir(parents=True, exist_ok=True)
    sdist = build_sdist(place)
    for built in (sdist, build_wheel(sdist, place)):
        print(f"{built} ({built.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main(sys.argv[1:])
