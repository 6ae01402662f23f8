"""Celery: a worker process and callers; results over the broker, chords over a directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from celery import Celery, chain, chord, group
from celery.result import AsyncResult
from kombu import Queue

from support import broker
from support.broker import Target

SECONDS = 240
DELAY_S = 8
"""So long tasks wait that are to be behind one that does not, on a busy machine too."""
PLAIN, URGENT, AGREED = (f"t{os.getpid()}-{name}" for name in ("plain", "urgent", "agreed"))
"""This run's queues: the broker may be one that runs already."""

TASKS = """
import os
import time
from celery import Celery
url, backend = os.environ["CELERY_TEST_URL"], os.environ["CELERY_TEST_BACKEND"]
app = Celery("interop", broker=url, backend=backend)
app.config_from_object("settings")

@app.task(name="interop.add")
def add(a, b):
    return a + b

@app.task(name="interop.total")
def total(numbers):
    return sum(numbers)

@app.task(name="interop.now")
def now():
    return time.time()

@app.task(name="interop.stubborn", bind=True, max_retries=3)
def stubborn(self, fails):
    if self.request.retries < fails:
        raise self.retry(countdown=1)  # over quorum queues Celery counts in seconds
    return self.request.retries

@app.task(name="interop.fragile", bind=True, acks_late=True, reject_on_worker_lost=True)
def fragile(self, mark):
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), 9)
    return self.request.delivery_info["redelivered"]
"""

SETTINGS = """
import os
from kombu import Queue
task_default_queue = os.environ["CELERY_TEST_QUEUE"]
given = {}
if task_default_queue.endswith("urgent"):
    given = {"max_priority": 9}
if task_default_queue.endswith("agreed"):
    given = {"queue_arguments": {"x-queue-type": "quorum"}}
    task_default_exchange_type = "topic"
    broker_transport_options = {"confirm_publish": True}
task_queues = [Queue(task_default_queue, routing_key=task_default_queue, **given)]
worker_prefetch_multiplier = 1
result_chord_retry_interval = 0.2
"""


@pytest.fixture(scope="module")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """Our own broker calls itself RabbitMQ, in a version kombu knows: Celery asks."""
    url = request.config.getoption("--broker-url")
    if url:
        yield broker.at(url)
    else:
        data = tmp_path_factory.mktemp("broker")
        with broker.serving(data, "product.name=RabbitMQ", "product.version=3.10.0") as own:
            yield own


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tasks are, and results that are not sent back over the broker."""
    place = tmp_path_factory.mktemp("celery")
    (place / "results").mkdir()
    (place / "tasks.py").write_text(TASKS)
    (place / "settings.py").write_text(SETTINGS)
    return place


@pytest.fixture(scope="module")
def url(target: Target) -> str:
    return f"amqp://{target.user}:{target.password}@{target.host}:{target.port}//"


def start_worker(
    place: Path, url: str, queue: str, backend: str, *options: str
) -> subprocess.Popen[bytes]:
    """A worker of one queue, in processes of its own."""
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-l", "ERROR"]
    command += ["--without-mingle", "-n", f"{queue}@%h", *options]
    environment = os.environ | {
        "CELERY_TEST_URL": url,
        "CELERY_TEST_BACKEND": backend,
        "CELERY_TEST_QUEUE": queue,
        "PYTHONPATH": str(place),
    }
    return subprocess.Popen(command, cwd=place, env=environment)


def stop_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(120)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


@pytest.fixture(scope="module")
def worker(place: Path, url: str) -> Iterator[None]:
    """Of the plain queue, for all tests; it sends results back over the broker."""
    process = start_worker(place, url, PLAIN, "rpc://", "-P", "threads", "-c", "2")
    yield
    stop_worker(process)


@pytest.fixture
def app(url: str) -> Iterator[Celery]:
    """A caller that gets results over the broker."""
    with Celery("interop", broker=url, backend="rpc://") as caller:
        caller.conf.task_default_queue = PLAIN
        yield caller


def await_worker(app: Celery) -> None:
    """What is sent from now on finds it at work."""
    app.send_task("interop.now").get(timeout=SECONDS)


@pytest.fixture(scope="module", autouse=True)
def swept(url: str) -> Iterator[None]:
    """The durable queues of this module are deleted at the end."""
    yield
    with Celery("sweeper", broker=url) as app, app.connection_for_write() as connection:
        delayed = [f"celery_delayed_{level}" for level in range(28)]
        for name in (PLAIN, URGENT, AGREED, *delayed):
            with suppress(Exception):
                connection.default_channel.queue_delete(name)
        for name in (*delayed, "celery_delayed_delivery"):
            with suppress(Exception):
                connection.default_channel.exchange_delete(name)


@pytest.mark.usefixtures("worker")
def test_tasks_run_and_their_results_come_back(app: Celery) -> None:
    results = [app.send_task("interop.add", (number, 1)) for number in range(30)]
    assert [result.get(timeout=SECONDS) for result in results] == list(range(1, 31))


@pytest.mark.usefixtures("worker")
def test_a_chain_passes_results_on(app: Celery) -> None:
    add = app.signature
    tasks = chain(add("interop.add", (1, 2)), add("interop.add", (3,)), add("interop.add", (4,)))
    assert tasks.apply_async().get(timeout=SECONDS) == 10


@pytest.mark.usefixtures("worker")
def test_a_group_runs_and_is_joined(app: Celery) -> None:
    tasks = group(app.signature("interop.add", (number, number)) for number in range(8))
    assert tasks.apply_async().get(timeout=SECONDS) == [2 * number for number in range(8)]


@pytest.mark.usefixtures("worker")
def test_a_task_is_tried_again(app: Celery) -> None:
    assert app.send_task("interop.stubborn", (2,)).get(timeout=SECONDS) == 2


@pytest.mark.usefixtures("worker")
def test_a_task_waits_for_its_time(app: Celery) -> None:
    await_worker(app)
    due = time.time() + DELAY_S
    late = app.send_task("interop.now", countdown=DELAY_S)
    at_once = app.send_task("interop.now")
    assert late.get(timeout=SECONDS) >= max(due - 0.1, at_once.get(timeout=SECONDS))


@pytest.mark.usefixtures("worker")
def test_tasks_that_wait_for_their_time_let_others_through(app: Celery) -> None:
    """The worker keeps them unacknowledged and asks for as many more: it raises its prefetch
    count, but for the whole channel only of a broker that calls itself RabbitMQ."""
    await_worker(app)
    due = time.time() + DELAY_S
    late = [app.send_task("interop.now", countdown=DELAY_S) for _ in range(6)]
    at_once = app.send_task("interop.now")
    began = [result.get(timeout=SECONDS) for result in late]
    assert min(began) >= max(due - 0.1, at_once.get(timeout=SECONDS))


@pytest.fixture(scope="module")
def archive(place: Path, url: str) -> Iterator[Celery]:
    """A caller that gets results from a directory: chords need a backend that counts."""
    with Celery("interop", broker=url, backend=f"file://{place}/results") as caller:
        caller.conf.task_queues = [Queue(URGENT, routing_key=URGENT, max_priority=9)]
        caller.conf.task_default_queue = URGENT
        yield caller


@pytest.fixture(scope="module")
def waiting(archive: Celery, place: Path, url: str) -> Iterator[list[tuple[int, AsyncResult]]]:
    """Priority and result of tasks that were there before the worker came; it has one process."""
    sent = [
        (priority, archive.send_task("interop.now", priority=priority)) for priority in (1, 5, 9, 5)
    ]
    options = ("-P", "prefork", "-c", "1")
    process = start_worker(place, url, URGENT, f"file://{place}/results", *options)
    yield sent
    stop_worker(process)


def test_urgent_tasks_come_first(waiting: list[tuple[int, AsyncResult]]) -> None:
    began = sorted((result.get(timeout=SECONDS), priority) for priority, result in waiting)
    assert [priority for _, priority in began] == [9, 5, 5, 1]


@pytest.mark.usefixtures("waiting")
def test_a_chord_ends_with_its_callback(archive: Celery) -> None:
    """The worker looks again and again whether all have ended: a task that is tried again."""
    header = [archive.signature("interop.add", (number, 1)) for number in range(4)]
    result = chord(header, archive.signature("interop.total"))()
    assert result.get(timeout=SECONDS) == 10


@pytest.mark.usefixtures("waiting")
def test_a_task_whose_process_dies_is_delivered_again(archive: Celery, place: Path) -> None:
    result = archive.send_task("interop.fragile", (str(place / "mark"),))
    assert result.get(timeout=SECONDS) is True


@pytest.fixture(scope="module")
def agreed(place: Path, url: str) -> Iterator[Celery]:
    """A caller, and a worker of a quorum queue. Celery sees of what type it is: it sets no prefetch
    count for the whole channel then, and delays tasks by quorum queues of its own."""
    process = start_worker(place, url, AGREED, "rpc://", "-P", "threads", "-c", "2")
    with Celery("interop", broker=url, backend="rpc://") as caller:
        caller.conf.task_default_exchange_type = "topic"
        quorum = {"x-queue-type": "quorum"}
        caller.conf.task_queues = [Queue(AGREED, routing_key=AGREED, queue_arguments=quorum)]
        caller.conf.task_default_queue = AGREED
        yield caller
    stop_worker(process)


def test_tasks_run_over_a_quorum_queue(agreed: Celery) -> None:
    results = [agreed.send_task("interop.add", (number, 1)) for number in range(30)]
    assert [result.get(timeout=SECONDS) for result in results] == list(range(1, 31))


def test_tasks_of_a_quorum_queue_wait_for_their_time(agreed: Celery) -> None:
    await_worker(agreed)
    due = time.time() + DELAY_S
    late = [agreed.send_task("interop.now", countdown=DELAY_S) for _ in range(6)]
    assert agreed.send_task("interop.now").get(timeout=SECONDS) < due
    assert all(result.get(timeout=SECONDS) >= due - 0.1 for result in late)


def test_a_task_of_a_quorum_queue_is_tried_again(agreed: Celery) -> None:
    assert agreed.send_task("interop.stubborn", (2,)).get(timeout=SECONDS) == 2
