"""Build what is published: the source distribution, from that alone the pure wheel, and with the
compiled build of these sources the compiled wheel, for this Python on this kind of machine.

python tools/dist.py        into dist/
python tools/dist.py DIR    somewhere else

The compiled build is that of `make setup`; without one there is no compiled wheel.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from compiled_tree import TREE, is_fresh, is_unwanted

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "docs", "examples", "deploy")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
PURE: Final = "py3-none-any"
INTERPRETER: Final = f"cp{sys.version_info.major}{sys.version_info.minor}"
PLATFORM: Final = sysconfig.get_platform().replace("-", "_").replace(".", "_")
COMPILED: Final = f"{INTERPRETER}-{INTERPRETER}-{PLATFORM}"


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
    wheels = place.glob(f"*-{PURE}.whl")
    return max(wheels, key=lambda path: path.stat().st_mtime_ns)


def compiled_wheel(pure: Path) -> Path:
    """The pure wheel with the compiled modules beside their sources, which they take the place of;
    what it says of itself and the list of its files are made anew."""
    made = pure.with_name(pure.name.replace(PURE, COMPILED))
    record = ""
    lines = []
    with zipfile.ZipFile(pure) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        files = {name: old.read(name) for name in old.namelist()}
        files |= {str(path.relative_to(TREE)): path.read_bytes() for path in libraries()}
        for name, content in sorted(files.items()):
            if name.endswith(".dist-info/RECORD"):
                record = name
                continue
            if name.endswith(".dist-info/WHEEL"):
                text = content.decode().replace("Is-Purelib: true", "Is-Purelib: false")
                content = text.replace(f"Tag: {PURE}", f"Tag: {COMPILED}").encode()
            new.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            lines.append(f"{name},sha256={digest.rstrip('=')},{len(content)}")
        new.writestr(record, "\n".join([*lines, f"{record},,", ""]))
    return made


def libraries() -> list[Path]:
    """The compiled modules, and the library that all of them ask."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return [path for path in TREE.rglob(f"*{suffix}") if path.is_file()]


def main(arguments: list[str]) -> None:
    """Build all of them, and say where they are."""
    place = Path(arguments[0] if arguments else ROOT / "dist").absolute()
    place.mkdir(parents=True, exist_ok=True)
    sdist = build_sdist(place)
    wheel = build_wheel(sdist, place)
    built = [sdist, wheel]
    if not is_unwanted() and is_fresh():
        built.append(compiled_wheel(wheel))
    else:
        print("There is no compiled build of these sources, so there is no compiled wheel")
    for each in built:
        print(f"{each} ({each.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main(sys.argv[1:])
