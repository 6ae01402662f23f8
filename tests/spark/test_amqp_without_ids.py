"""Goal: with exactlyOnce a message that has no id ends the query, or is left out, as options say;
and nothing else is lost or kept because of it.

Method: the planner's session on a real broker, with no Spark around it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from sluicemq.client.messages import BasicProperties
from sluicemq.errors import Refused
from sluicemq.spark.commits import Offset
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.options import Options
from sluicemq.spark.queue_stream import ChunkPartition, QueueStreamReader
from sluicemq.spark.stream_planner import START, StreamPlanner
from spark.amqp_messages import Broker, numbered

BODY = StructType([StructField("body", BinaryType())])
IDS = ["a", None, "b", "a", None, None, "c"]
WITHOUT = {1, 4, 5}


def options(amqp: Broker, queue: str, folder: Path, **more: str) -> Options:
    given = {"uri": amqp.url, "queue": queue, "exactlyOnce": "true", "ledger": str(folder)}
    return Options.parse(given | more, "source")


def fill(amqp: Broker, queue: str) -> None:
    properties = [BasicProperties(message_id=each) for each in IDS]
    amqp.publish(queue, numbered(len(IDS)), properties)


def plan_all(session: StreamPlanner, start: Offset) -> Offset:
    """A batch of all that there is."""
    session.limit_to_available()
    end = session.plan(start, 2**40)
    assert end != start
    return end


def bodies(session: StreamPlanner, given: Options, start: Offset, end: Offset) -> list[bytes]:
    """What an executor reads of a batch."""
    pieces = [piece for piece, _ in session.batch(start, end)]
    partition = ChunkPartition(session.endpoint, pieces, None)
    found: list[bytes] = []
    for batch in QueueStreamReader(given, BODY).read(partition):
        found += batch.column("body").to_pylist()
    return found


def test_by_default_one_is_an_error_that_names_the_option(
    amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    fill(amqp, name)
    session = StreamPlanner(options(amqp, name, tmp_path))
    try:
        with pytest.raises(AmqpError, match=f"'{name}' has no message_id .messagesWithoutId = fai"):
            plan_all(session, dict(START))
    finally:
        session.close()
    assert amqp.ready(name, len(IDS)) == len(IDS)


@pytest.mark.parametrize("do", ["skip", "deadLetter"])
def test_they_are_left_out_and_leave_with_their_batch(
    amqp: Broker, name: str, tmp_path: Path, do: str
) -> None:
    dead = amqp.declare(f"{name}-dead")
    amqp.declare(name, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    fill(amqp, name)
    given = options(amqp, name, tmp_path, messagesWithoutId=do)
    session = StreamPlanner(given)
    try:
        end = plan_all(session, dict(START))
        assert bodies(session, given, dict(START), end) == [b"0", b"2", b"6"]
        assert amqp.ready(dead) == 0, "the batch is not committed"
        session.confirm(end)
    finally:
        session.close()
    assert amqp.ready(name) == 0
    wanted = sorted(WITHOUT) if do == "deadLetter" else []
    assert (
        [int(body) for _, body in amqp.take(dead, len(wanted) or 1)] == wanted
        if wanted
        else (amqp.ready(dead) == 0)
    )


def test_a_batch_that_is_replayed_has_its_rows_and_they_leave_afterwards(
    amqp: Broker, name: str, tmp_path: Path
) -> None:
    dead = amqp.declare(f"{name}-dead")
    amqp.declare(name, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    fill(amqp, name)
    given = options(amqp, name, tmp_path, messagesWithoutId="deadLetter")
    session = StreamPlanner(given)
    end = plan_all(session, dict(START))
    before = bodies(session, given, dict(START), end)
    session.close()
    session = StreamPlanner(given)
    try:
        assert bodies(session, given, dict(START), end) == before
        after = session.plan(end, 2**40)
        assert bodies(session, given, end, after) == []
        session.confirm(after)
    finally:
        session.close()
    assert amqp.ready(dead, len(WITHOUT)) == len(WITHOUT)
    assert amqp.ready(name) == 0


def test_a_batch_of_nothing_but_them_can_be_replayed(
    amqp: Broker, name: str, tmp_path: Path
) -> None:
    amqp.declare(name)
    amqp.publish(name, numbered(3))
    given = options(amqp, name, tmp_path, messagesWithoutId="skip")
    session = StreamPlanner(given)
    end = plan_all(session, dict(START))
    session.close()
    session = StreamPlanner(given)
    try:
        assert bodies(session, given, dict(START), end) == []
    finally:
        session.close()


def test_nothing_but_exactly_once_looks_at_ids() -> None:
    with pytest.raises(Refused, match="messagesWithoutId = 'skip': needs exactlyOnce = true"):
        Options.parse({"queue": "q", "messagesWithoutId": "skip"}, "source")
