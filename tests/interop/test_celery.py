"""Celery: a worker process and a caller, with results over the broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from broker import Target

TASKS = """
import os
from celery import Celery
app = Celery("interop", broker=os.environ["CELERY_TEST_URL"], backend="rpc://")

@app.task(name="interop.add")
def add(a, b):
    return a + b
"""


@pytest.fixture
def url(target: Target) -> str:
    return f"amqp://{target.user}:{target.password}@{target.host}:{target.port}//"


@pytest.fixture
def worker(url: str, tmp_path: Path) -> Iterator[None]:
    """A worker of the tasks above, in a process of its own."""
    (tmp_path / "tasks.py").write_text(TASKS)
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-P", "solo", "-l", "ERROR"]
    environment = os.environ | {"CELERY_TEST_URL": url, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.usefixtures("worker")
def test_tasks_run_and_their_results_come_back(url: str) -> None:
    app = Celery("interop", broker=url, backend="rpc://")
    results = [app.send_task("interop.add", (number, 1)) for number in range(30)]
    assert [result.get(timeout=30) for result in results] == list(range(1, 31))
    app.close()
