"""Goal: who installs a package, and has no checkout, has a broker, its commands, the pytest plugin
and the Spark source; and no more than that needs.

Method: `tools/dist.py` builds the packages, and each goes into a fresh environment. Nothing is
fetched: what a package says that it needs is linked there from this environment, and nothing else.
The compiled wheel is there when these sources are compiled, as `make setup` and a whole run do.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sluicemq import __version__
from support.thorough import only_thorough, thorough

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
LIGHT = {"click", "google-crc32c", "msgspec", "regex", "rich"}
"""What the broker and its commands need; the rest are extras."""
LIGHTS_OWN = {"markdown-it-py", "mdurl", "pygments"}
"""What rich needs."""

FILES = {"wheel": "*-none-any.whl", "sdist": "*.tar.gz", "compiled": "*-cp3*.whl"}

PUBLISH = """
import sys
from sluicemq.client.blocking import connect
from sluicemq.client.messages import BasicProperties, content, publish_frame
url, bodies = sys.argv[1], sys.argv[2:]
with connect(url, timeout_s=240) as client:
    client.declare_queue("q", durable=True)
    for body in bodies:
        raw = BasicProperties(delivery_mode=2).encode()
        client.send_bytes(publish_frame("", "q", False) + content(raw, body.encode(), 4096))
    client.count_queue("q")
"""
SUITE = """
def test_of_a_user(amqp_admin):
    amqp_admin.declare_queue("q")
    amqp_admin.publish("q", "x")
    amqp_admin.wait_until("q", ready=1)
"""
READ = """
import os
import sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.format("amqp").option("uri", sys.argv[1]).option("queue", "q").load().collect()
print(sorted(bytes(row.body) for row in rows))
"""


class Installed(NamedTuple):
    """A fresh environment with one of the packages."""

    place: Path
    needs: set[str]

    def run(self, *command: str) -> str:
        """What a command says; it must succeed."""
        clean = {key: value for key, value in os.environ.items() if "PYTHON" not in key}
        done = subprocess.run(
            [str(self.place / "bin" / command[0]), *command[1:]],
            cwd=self.place,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where they are."""
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(ROOT / "tools" / "dist.py"), str(place)]
    subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)
    return place


@pytest.fixture(scope="module", params=thorough(["wheel", "compiled"], [*FILES]))
def installed(request: pytest.FixtureRequest, packages: Path) -> Installed:
    """The package in an environment of its own, with what it needs and pytest."""
    found = [*packages.glob(FILES[request.param])]
    if not found and request.param == "compiled":
        pytest.skip("there is no compiled build of these sources: make setup makes it")
    (package,) = found
    place = packages / f"env-{request.param}"
    venv.create(place, with_pip=False)
    if request.param == "sdist":
        link(place, ["setuptools"])
    python = str(place / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile"]
    subprocess.run([*pip, "install", *options, str(package)], check=True, timeout=PATIENCE_S)
    show = "from importlib.metadata import requires; print(*requires('sluicemq'), sep='\\n')"
    asked = subprocess.check_output([python, "-c", show], text=True).splitlines()
    return Installed(place, link(place, needed(asked, "testing")))


def needed(requirements: Sequence[str], extra: str) -> list[str]:
    """Those of a package's own requirements that an extra asks for, "" for none."""
    wanted = map(Requirement, requirements)
    return [
        str(each.name) + (f"[{','.join(each.extras)}]" if each.extras else "")
        for each in wanted
        if each.marker is None or each.marker.evaluate({"extra": extra})
    ]


def link(place: Path, wanted: Sequence[str]) -> set[str]:
    """Link packages into an environment with all that they need; their names."""
    (target,) = place.glob("lib/python*/site-packages")
    names: set[str] = set()
    left = list(wanted)
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        if name in names:
            continue
        names.add(name)
        found = distribution(name)
        for path in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            there = Path(str(found.locate_file(path)))
            if not (target / path).exists():
                (target / path).symlink_to(there)
        for extra in ("", *requirement.extras):
            left += needed(found.requires or [], extra)
    return names


@pytest.fixture(scope="module")
def url(installed: Installed) -> Iterator[str]:
    """The broker of the package, at work."""
    command = [str(installed.place / "bin" / "sluicemq"), "serve", "--port", "0"]
    with (
        (installed.place / "log").open("wb") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, cwd=installed.place
        ) as broker,
    ):
        assert broker.stdout is not None
        yield broker.stdout.readline().decode().removeprefix("ready ").strip()
        broker.terminate()


def test_the_package_needs_no_more_than_it_uses(installed: Installed) -> None:
    show = "from importlib.metadata import requires; print(*requires('sluicemq'), sep='\\n')"
    asked = installed.run("python", "-c", show).splitlines()
    assert set(needed(asked, "")) == LIGHT
    assert set(needed(asked, "testing")) == {*LIGHT, "pytest"}
    with_what_these_need = set().union(*(all_of(name) for name in LIGHT))
    assert with_what_these_need == LIGHT | LIGHTS_OWN


def all_of(name: str) -> set[str]:
    """A package and what it needs."""
    try:
        more = needed(distribution(name).requires or [], "")
    except PackageNotFoundError:
        return {name}
    return {canonicalize_name(name)}.union(*(all_of(Requirement(each).name) for each in more))


def test_it_serves_publishes_and_tells(installed: Installed, url: str) -> None:
    kind = "compiled" if installed.place.name == "env-compiled" else "pure"
    assert installed.run("sluicemq", "--version") == f"sluicemq {__version__} ({kind})\n"
    installed.run("python", "-c", PUBLISH, url, "a", "b")
    port = url.rpartition(":")[2]
    listed = installed.run("sluicemq", "ctl", "list_queues", "--port", port, "name", "messages")
    assert re.search(r"^q\t2$", listed, re.MULTILINE)
    imported = installed.run("python", "-c", "import sluicemq; print(sluicemq.__file__)")
    assert imported.startswith(str(installed.place))


def test_pytest_finds_the_fixtures(installed: Installed) -> None:
    (installed.place / "test_user.py").write_text(SUITE)
    said = installed.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_user.py")
    assert "1 passed" in said


@only_thorough
@pytest.mark.spark
def test_spark_reads(installed: Installed, url: str) -> None:
    if installed.place.name != "env-wheel":
        pytest.skip("the wheel is tried, which has the same files; Spark's start is dear")
    show = "from importlib.metadata import requires; print(*requires('sluicemq'), sep='\\n')"
    link(installed.place, needed(installed.run("python", "-c", show).splitlines(), "spark"))
    installed.run("python", "-c", PUBLISH, url, "c")
    said = installed.run("python", "-c", READ, url)
    assert "b'c'" in said


def test_every_file_of_the_package_is_there(installed: Installed) -> None:
    (there,) = installed.place.glob("lib/python*/site-packages/sluicemq")
    sources = names(ROOT / "src" / "sluicemq")
    assert "spark/pipeline/page/report.html" in sources
    assert names(there) == sources
    assert names(installed.place / "share" / "sluicemq") == names(ROOT / "deploy")


def names(folder: Path) -> set[str]:
    """All files below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if path.suffix not in (".pyc", ".so")}


def test_the_sources_have_the_documents(packages: Path) -> None:
    (sdist,) = packages.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("docs/flow-control.md", "README.md", "examples/orders.py", "LICENSE"):
        assert name in inside
