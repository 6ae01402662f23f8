"""Where suites come from: packages of the registries, git, a directory. Nothing is vendored.

What was fetched stays in the cache; every version is pinned, so it never goes stale.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from suite import Missing

FETCH_SECONDS = 300
ROOT = Path(__file__).resolve().parents[2]


def call(command: list[str], directory: Path) -> str:
    """Runs it; Missing with its last words when it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=FETCH_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{' '.join(command[:3])}: {said[-1] if said else done.returncode}")
    return done.stdout


def unpack(archive: Path, place: Path) -> Path:
    """The one directory that the archive holds, moved to `place`."""
    loose = place.with_suffix(".part")
    shutil.rmtree(loose, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(loose, filter="data")
    (inner,) = loose.iterdir()
    inner.rename(place)
    shutil.rmtree(loose)
    return place


@dataclass(frozen=True)
class Sdist:
    """A source distribution on PyPI. `tests` is what must be in it."""

    package: str
    version: str
    tests: str

    def fetch(self, cache: Path) -> Path:
        place = cache / f"{self.package}-{self.version}"
        if not place.exists():
            downloads = cache / "downloads"
            downloads.mkdir(parents=True, exist_ok=True)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
            wish = ["--no-deps", "--no-binary", self.package, f"{self.package}=={self.version}"]
            call([*pip, "--quiet", "--dest", str(downloads), *wish], cache)
            name = self.package.replace("-", "?")
            archives = list(downloads.glob(f"{name}-{self.version}.tar.gz"))
            if not archives:
                raise Missing(f"PyPI has no source distribution of {self.package} {self.version}")
            unpack(archives[0], place)
        if not (place / self.tests).exists():
            raise Missing(f"the source distribution of {self.package} contains no tests")
        return place


@dataclass(frozen=True)
class NpmPackage:
    """A package of npm, with the packages that its tests need."""

    package: str
    version: str
    tests: str
    needs: tuple[str, ...] = ()

    def fetch(self, cache: Path) -> Path:
        place = cache / f"{self.package}-{self.version}"
        if not place.exists():
            cache.mkdir(parents=True, exist_ok=True)
            wish = f"{self.package}@{self.version}"
            call(["npm", "pack", "--silent", wish], cache)
            unpack(cache / f"{self.package}-{self.version}.tgz", place)
            if self.needs:
                beside = ["--prefix", self.tests, "--no-save", "--no-package-lock"]
                options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
                call(["npm", "install", *beside, *options, *self.needs], place)
        if not (place / self.tests).exists():
            raise Missing(f"npm's package {self.package} contains no tests")
        return place


@dataclass(frozen=True)
class Git:
    """A tag of a public repository, for clients whose packages leave the tests out."""

    name: str
    url: str
    tag: str

    def fetch(self, cache: Path) -> Path:
        place = cache / f"{self.name}-{self.tag}"
        if not place.exists():
            cache.mkdir(parents=True, exist_ok=True)
            loose = place.with_suffix(".part")
            shutil.rmtree(loose, ignore_errors=True)
            options = ["--quiet", "--depth", "1", "--branch", self.tag]
            try:
                call(["git", "clone", *options, self.url, str(loose)], cache)
            except Missing as reason:
                text = f"its packages contain no tests, and {self.url} does not answer"
                hint = f"give a checkout of tag {self.tag} with --sources {self.name}=DIRECTORY"
                raise Missing(f"{text} ({reason}); {hint}") from None
            loose.rename(place)
        return place


@dataclass(frozen=True)
class Debian:
    """A folder that a package of Debian's installs, tests and all."""

    package: str
    folder: str
    tests: str

    def fetch(self, cache: Path) -> Path:
        place = Path(self.folder)
        if not (place / self.tests).exists():
            raise Missing(f"{self.package} is not installed: apt-get install {self.package}")
        return place


@dataclass(frozen=True)
class Here:
    """Tests of this repository."""

    def fetch(self, cache: Path) -> Path:
        return ROOT
