"""Goal: options mean what their table says, and what cannot be used is refused with a sentence that
names the option, shows the value unless it is secret, and says what to do. Method: they are parsed;
chunks are served and fetched. No Spark session, no broker.
"""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.spark.commits import CommitLog
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.options import Options, declarations
from sluicemq.spark.own_folder import own_folder
from sluicemq.spark.stream_planner import StreamPlanner
from sluicemq.spark.transfer import ChunkServer, fetch
from support.ports import free_port

URIS = "amqp://me:first@one/,amqp://two:5673/shop"


def parse(**options: str) -> Options:
    return Options.parse({"queue": "q"} | options, "source")


def credentials(options: Options) -> list[tuple[str, str]]:
    return [(each.username, each.password) for each in options.addresses]


def test_the_uris_have_the_credentials_if_nothing_else_has() -> None:
    assert credentials(parse(uris=URIS)) == [("me", "first"), ("guest", "guest")]


def test_user_and_password_are_for_all_brokers() -> None:
    options = parse(uris=URIS, user="you", password="a:b@c/%41")
    assert credentials(options) == [("you", "a:b@c/%41")] * 2
    assert [str(each) for each in options.addresses] == [
        "amqp://you@one:5672/",
        "amqp://you@two:5673/shop",
    ]
    assert "a:b" not in repr(options)


def test_a_password_file_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old secret \n")
    options = parse(user="you", passwordFile=str(file))
    assert credentials(options) == [("you", "old secret ")]
    file.write_text("new")
    assert credentials(options) == [("you", "new")]
    assert "new" not in repr(options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"password": "secret", "passwordFile": "/x"}, "password: give it, or passwordFile"),
        ({"passwordFile": "/no/such"}, "passwordFile = '/no/such': cannot be read: .*No such file"),
        ({"password": ""}, r"password = '\.\.\.': must be a text that is not empty"),
        (
            {"transferPort": "70000"},
            "transferPort = '70000': must be a whole number from 0 to 6",
        ),
        ({"retries": "8"}, "retries: there is no such option .*: reconnectFor"),
        ({"provider": "amqp"}, "provider: .* CREATE TEMPORARY VIEW"),
        ({"subscribePattern": "o.*"}, "subscribePattern: .* there is queuePattern"),
        ({"subscribe": "orders"}, "subscribe: .* named by queues"),
        ({"passwd": "secret"}, "^passwd: there is no such option of format amqp$"),
        ({"kafka.ssl.keystore.password": "secret"}, r"keystore\.password: .*spark-kafka\.md"),
        ({"kafka.sasl.jaas.config": "x password='secret';"}, r"^kafka\.sasl\.jaas\.config: there"),
        (
            {"ledger": "s3a://me:secret@bucket/l"},
            r"ledger = 's3a://me:\.\.\.@bucket/l': needs exactlyOnce = true",
        ),
        ({"dedupWindow": "5"}, "dedupWindow = '5': needs exactlyOnce = true"),
        ({"messagesWithoutId": "skip"}, "messagesWithoutId = 'skip': needs exactlyOnce = true"),
        ({"queueType": "stream", "gather": "executors"}, "gather = executors: is for queues"),
        ({"queueType": "stream", "consumersPerQueue": "2"}, "consumersPerQueue = 2: is for queues"),
        ({"queueType": "stream", "gatherers": "3"}, "gatherers = 3: needs gather = executors"),
        ({"gather": "driver", "gatherers": "3"}, "gatherers = 3: needs gather = executors"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        parse(**options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "consumers"),
    [
        ({}, 1),
        ({"queue": None, "queues": "a,b,c,d"}, 4),
        ({"consumersPerQueue": "4"}, 4),
        ({"queue": None, "queues": "a,b", "consumersPerQueue": "2"}, 4),
        ({"gather": "executors", "gatherers": "3"}, 3),
        ({"gather": "executors", "gatherers": "3", "consumersPerQueue": "4"}, 4),
    ],
)
def test_so_many_as_all_consumers_can_hold_may_be_waited_for(
    more: dict[str, str | None], consumers: int
) -> None:
    """And not one more."""
    given = {"queue": "q", "prefetch": "1000"} | more
    options = {key: value for key, value in given.items() if value is not None}
    most = 1000 * consumers
    found = Options.parse(options | {"minMessagesPerTrigger": str(most)}, "source")
    assert found.min_messages_per_trigger == most
    words = rf"minMessagesPerTrigger = {most + 1}: must not be above prefetch .*\({most}\)"
    with pytest.raises(Refused, match=words):
        Options.parse(options | {"minMessagesPerTrigger": str(most + 1)}, "source")


BAD = {"count": "many", "switch": "maybe", "choice": "neither", "offset": "soon", "list": "a,,b"}


@pytest.mark.parametrize(
    "name", [each.name for _, each in declarations() if each.kind in BAD and each.name != "queues"]
)
def test_a_bad_value_of_any_option_names_it_and_what_is_allowed(name: str) -> None:
    (declared,) = (each for _, each in declarations() if each.name == name)
    bad = BAD[declared.kind]
    side = "sink" if declared.side == "sink" else "source"
    given = {name: bad} | ({"queue": "q"} if side == "source" else {})
    with pytest.raises(Refused) as caught:
        Options.parse(given, side)
    assert str(caught.value).startswith(f"{name} = {bad!r}: must be {declared.allowed()}")


def test_a_checkpoint_that_cannot_be_read_shows_no_password() -> None:
    with pytest.raises(Refused, match=r"checkpointLocation = 's4://me:.*cannot be read") as caught:
        CommitLog("s4://me:secret@bucket/c")
    assert "secret" not in str(caught.value)


def test_the_sink_may_be_given_what_spark_puts_there() -> None:
    options = Options.parse({"checkpointLocation": "/c", "path": "p"}, "sink")
    assert options.checkpoint_location == ""


def test_chunks_are_served_at_one_address_and_known_by_another() -> None:
    port = free_port("0.0.0.0")
    server = ChunkServer("localhost", "0.0.0.0", port)
    try:
        assert server.endpoint[:2] == ("localhost", port)
        assert list(fetch(server.endpoint, [])) == []
    finally:
        server.close()


@pytest.mark.parametrize("bind", ["", "127.0.0.1"])
def test_a_port_that_is_taken_is_named(
    bind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no socket of the query that was not started stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    more = {"transferBind": bind} if bind else {}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        name = "transferBind" if bind else "transferHost"
        words = f"{name} = '127.0.0.1', transferPort = {port}: cannot listen there"
        with pytest.raises(AmqpError, match=words):
            StreamPlanner(parse(transferPort=str(port), **more))
    assert list(own_folder().iterdir()) == []
