"""What a broker costs a test run: SluiceMQ's fixtures, RabbitMQ's by pytest-rabbitmq, and kombu's
transport in memory, each with the same tests.

    python bench/testing.py [--rabbitmq PYTHON] [--tests 20]

PYTHON is one of an environment with pytest-rabbitmq and kombu; without it RabbitMQ is left out.
Each test declares a queue, publishes a message and gets it. The table has seconds to the first
test, milliseconds a test for what its fixtures do before and after it (median), and the resident
memory of all processes beside the test's own, pages that two of them share counted once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from history import keep

ROOT = Path(__file__).resolve().parents[1]

CONFTEST = """
import json, os
from pathlib import Path
import pytest
found = {"setup": [], "teardown": [], "beside_mb": 0}

def beside(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from beside(int(child))

def resident_mb(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0

def pytest_runtest_logreport(report):
    if report.when != "call":
        found[report.when].append(report.duration)
    elif report.failed:
        raise SystemExit(str(report.longrepr))
    else:
        found["beside_mb"] = sum(map(resident_mb, beside(os.getpid())))

def pytest_sessionfinish():
    Path("found.json").write_text(json.dumps(found))
"""
OURS = """
import pika, pytest
@pytest.fixture
def connection(amqp_url):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        yield connection
"""
RABBITMQ = """
import pytest
@pytest.fixture
def connection(rabbitmq):
    return rabbitmq
"""
OVER_AMQP = """
@pytest.mark.parametrize("number", range({tests}))
def test_one(connection, number):
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"order")
    while channel.basic_get("orders", auto_ack=True)[0] is None:
        pass
"""
MEMORY = """
import pytest
from kombu import Connection
@pytest.mark.parametrize("number", range({tests}))
def test_one(number):
    with Connection("memory://") as connection, connection.SimpleQueue("orders") as queue:
        queue.put("order")
        queue.get(timeout=10).ack()
"""


def measured(python: str, suite: str, tests: int) -> tuple[float, float, float]:
    """Seconds to the first test, milliseconds a test, megabytes beside it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "conftest.py").write_text(CONFTEST)
        (place / "test_suite.py").write_text(suite.replace("{tests}", str(tests)))
        command = [python, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", name, name]
        done = subprocess.run(command, cwd=place, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        found = json.loads((place / "found.json").read_text())
    each = [a + b for a, b in zip(found["setup"][1:], found["teardown"], strict=False)]
    return found["setup"][0], statistics.median(each) * 1000, found["beside_mb"]


def main() -> None:
    """Measure each, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rabbitmq", metavar="PYTHON", default="")
    parser.add_argument("--tests", type=int, default=20)
    given = parser.parse_args()
    print(f"{'':<24} {'first s':>10} {'a test ms':>10} {'beside MB':>10}")
    rows = [("SluiceMQ", sys.executable, OURS + OVER_AMQP), ("memory://", sys.executable, MEMORY)]
    if given.rabbitmq:
        rows.append(("pytest-rabbitmq", given.rabbitmq, RABBITMQ + OVER_AMQP))
    for what, python, suite in rows:
        first_s, each_ms, beside_mb = measured(python, suite, given.tests)
        print(f"{what:<24} {first_s:>10.2f} {each_ms:>10.1f} {beside_mb:>10.0f}", flush=True)
        keep("testing", what, first_s=first_s, each_ms=each_ms, beside_mb=beside_mb)


if __name__ == "__main__":
    main()
