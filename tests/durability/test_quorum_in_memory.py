"""Goal: of a quorum queue with an in-memory limit no more bodies stay in RAM than that and what the
journal has not given to segments yet; the others are delivered from the disk, also right after a
restart, in order and once each.

Method: the real process with small journal files, filled with much more than it may keep, looked at
from outside, killed, and emptied by a consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from support import broker
from support.thorough import thorough
from support.waiting import await_truth

MIB = 1 << 20
BODY_BYTES = 20_000
MESSAGES = 2000
JOURNAL_BYTES = MIB
SETTINGS = (
    f"storage.journal_file_size_limit={JOURNAL_BYTES}",
    "storage.reserve_bytes=0",
    "raft.segment_max_entries=64",
)
JOURNAL_FILES = 3
"""What is in as many may still be in RAM: two stay between checkpoints, one is being written."""
KEPT_MESSAGES = 100
KEPT_BYTES = KEPT_MESSAGES * BODY_BYTES
RSS_MAX = 25 * MIB
"""By how much the process may grow: less than by what a queue without a limit keeps in RAM."""


def body(number: int) -> bytes:
    return b"%d " % number + bytes(BODY_BYTES - len(b"%d " % number))


def connect(target: broker.Target) -> BlockingChannel:
    return pika.BlockingConnection(pika.URLParameters(target.url)).channel()


def row(ctl: broker.Ctl) -> dict[str, int]:
    """Columns of the only queue."""
    columns = ("messages", "messages_ram", "message_bytes_ram")
    values = ctl("list_queues", "--no-table-headers", "--silent", *columns).split()
    return dict(zip(columns, map(int, values), strict=True))


def take_all(channel: BlockingChannel, count: int) -> list[int]:
    """The numbers of the messages, in the order in which they came; each is whole."""
    found: list[int] = []

    def take(_: Any, method: Any, __: Any, content: bytes) -> None:
        number = int(content.split(b" ", 1)[0])
        assert content == body(number)
        found.append(number)
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            channel.stop_consuming()

    channel.basic_qos(prefetch_count=50)
    channel.basic_consume("bounded", take)
    channel.start_consuming()
    return found


def by_argument(_: broker.Ctl, length: bool) -> dict[str, int]:
    limit = ("length", KEPT_MESSAGES) if length else ("bytes", KEPT_BYTES)
    return {f"x-max-in-memory-{limit[0]}": limit[1]}


def by_policy(ctl: broker.Ctl, length: bool) -> dict[str, int]:
    limit = ("length", KEPT_MESSAGES) if length else ("bytes", KEPT_BYTES)
    ctl("set_policy", "bounds", "bounded", f'{{"max-in-memory-{limit[0]}": {limit[1]}}}')
    return {}


@pytest.mark.parametrize(
    ("limited", "length"), thorough([(by_policy, False)], [(by_argument, True), (by_policy, False)])
)
def test_what_is_beyond_the_limit_is_on_the_disk_alone(
    tmp_path: Path, limited: Callable[[broker.Ctl, bool], dict[str, int]], length: bool
) -> None:
    process = broker.start(tmp_path, *SETTINGS, errors=tmp_path / "stderr.txt")
    try:
        target = broker.await_ready(process, tmp_path / "stderr.txt")
        ctl = broker.Ctl(target)
        arguments = {"x-queue-type": "quorum", **limited(ctl, length)}
        channel = connect(target)
        channel.queue_declare("bounded", durable=True, arguments=arguments)
        channel.confirm_delivery()
        idle_bytes = target.rss_bytes()
        for number in range(MESSAGES):
            channel.basic_publish("", "bounded", body(number))
        kept = KEPT_MESSAGES + JOURNAL_FILES * JOURNAL_BYTES // BODY_BYTES

        def is_bounded() -> bool:
            found = row(ctl)
            assert found["messages"] == MESSAGES
            assert found["message_bytes_ram"] == found["messages_ram"] * BODY_BYTES
            return 0 < found["messages_ram"] <= kept

        await_truth(is_bounded)
        assert target.rss_bytes() < idle_bytes + RSS_MAX
    finally:
        process.kill()
        process.wait()
    with broker.serving(tmp_path, *SETTINGS) as target:
        assert take_all(connect(target), MESSAGES) == [*range(MESSAGES)]
        assert target.rss_bytes() < idle_bytes + RSS_MAX
