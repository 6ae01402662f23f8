"""Goal: the rows tell the truth about the broker. Method: a node in a World that stands still, a
client made of our own frames, and the rows compared with what was done.

The store is held up by a sync that does not end: then credit runs out link by link.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sluicemq.amqp.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from sluicemq.amqp.properties import BasicProperties, header_frame
from sluicemq.amqp.types import Table
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.pacer import QueuePace
from sluicemq.errors import Refused
from sluicemq.flow.alarm import MEMORY
from sluicemq.kernel.socket_messages import Closed
from sluicemq.manage.lists import LISTS
from sluicemq.manage.tables import COLUMNS, DEFAULTS
from sluicemq.manage.views import pieces
from sluicemq.routing.topology import PREDECLARED

from .bench import MS, Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.say(QueueDeclare(queue="orders", durable=True).frame(1))
    return bench


@pytest.mark.parametrize("command", COLUMNS)
def test_every_column_is_declared_and_every_declared_one_is_there(
    bench: Bench, command: str
) -> None:
    assert list(LISTS[command][1]) == list(COLUMNS[command])
    bench.say(BasicConsume(queue="orders", consumer_tag="c").frame(1))
    found = bench.rows(command, *COLUMNS[command])
    assert found
    assert all(list(row) == list(COLUMNS[command]) for row in found)
    assert list(bench.rows(command)[0]) == list(DEFAULTS[command])


def test_list_queues_counts_messages(bench: Bench) -> None:
    bench.publish("orders", 3)
    bench.say(BasicQos(prefetch_count=2).frame(1))
    bench.say(BasicConsume(queue="orders", consumer_tag="c").frame(1))
    wanted = "name messages_ready messages_unacknowledged messages consumers messages_persistent"
    assert bench.rows("list_queues", *wanted.split()) == [
        {
            "name": "orders",
            "messages_ready": 1,
            "messages_unacknowledged": 2,
            "messages": 3,
            "consumers": 1,
            "messages_persistent": 3,
        }
    ]
    (memory,) = bench.rows("list_queues", "memory", "message_bytes", "message_bytes_ready")
    assert memory["memory"] == bench.node.broker.accounted_bytes
    assert memory["message_bytes"] == 3 * int(str(memory["message_bytes_ready"]))


def test_list_queues_tells_where_the_messages_are(bench: Bench) -> None:
    bench.publish("orders", 3)
    bench.say(BasicQos(prefetch_count=2).frame(1))
    bench.say(BasicConsume(queue="orders", consumer_tag="c").frame(1))
    wanted = "messages_ram messages_ready_ram messages_unacknowledged_ram messages_paged_out"
    assert bench.rows("list_queues", *wanted.split()) == [
        {
            "messages_ram": 3,
            "messages_ready_ram": 1,
            "messages_unacknowledged_ram": 2,
            "messages_paged_out": 0,
        }
    ]
    (sizes,) = bench.rows("list_queues", "message_bytes", "message_bytes_ram")
    assert sizes["message_bytes_ram"] == sizes["message_bytes"]
    (row,) = bench.rows("list_queues", "backing_queue_status", "message_bytes_persistent")
    assert row["message_bytes_persistent"] == sizes["message_bytes"]
    status = row["backing_queue_status"]
    assert isinstance(status, dict)
    assert (status["mode"], status["len"], status["next_seq_id"]) == ("default", 1, 3)
    assert status["target_ram_count"] == "infinity"


def test_list_connections_tells_who_and_what_was_agreed(bench: Bench) -> None:
    wanted = "name user vhost state peer_port channels frame_max channel_max auth_mechanism"
    assert bench.rows("list_connections", *wanted.split()) == [
        {
            "name": "127.0.0.1:40312 -> 127.0.0.1:5672",
            "user": "guest",
            "vhost": "/",
            "state": "running",
            "peer_port": 40312,
            "channels": 1,
            "frame_max": 4096,
            "channel_max": 7,
            "auth_mechanism": "PLAIN",
        }
    ]
    (row,) = bench.rows("list_connections", "client_properties", "recv_oct")
    assert row["client_properties"] == {
        "product": "test",
        "capabilities": {"connection.blocked": True},
    }
    assert row["recv_oct"] == bench.reader.tap.received_bytes > 0


def test_list_channels_and_consumers(bench: Bench) -> None:
    bench.say(ConfirmSelect().frame(1) + BasicQos(prefetch_count=9).frame(1))
    bench.say(BasicConsume(queue="orders", consumer_tag="tag", no_ack=True).frame(1))
    (channel,) = bench.rows("list_channels", "number", "confirm", "consumer_count")
    assert channel == {"number": 1, "confirm": True, "consumer_count": 1}
    (consumer,) = bench.rows("list_consumers")
    assert consumer == {
        "queue_name": "orders",
        "channel_pid": "127.0.0.1:40312 -> 127.0.0.1:5672 (1)",
        "consumer_tag": "tag",
        "ack_required": False,
        "prefetch_count": 9,
        "active": True,
        "arguments": {},
    }


def test_list_exchanges_and_bindings_with_the_default_exchange(bench: Bench) -> None:
    bench.say(ExchangeDeclare(exchange="logs", exchange_type="topic").frame(1))
    bench.say(QueueBind(queue="orders", exchange="logs", routing_key="a.#").frame(1))
    names = [row["name"] for row in bench.rows("list_exchanges")]
    assert names == ["", *PREDECLARED, "logs"]
    found = bench.rows("list_bindings", "source_name", "destination_name", "routing_key")
    assert [tuple(row.values()) for row in found] == [
        ("", "orders", "orders"),
        ("logs", "orders", "a.#"),
    ]


def test_arguments_come_out_as_json(bench: Bench) -> None:
    arguments: Table = {"x-binary": b"\xff", "x-list": [1, None], "x-table": {"deep": True}}
    bench.say(QueueDeclare(queue="odd", arguments=arguments).frame(1))
    odd = bench.rows("list_queues", "name", "arguments")[1]
    assert odd["arguments"] == {"x-binary": "\\xff", "x-list": [1, None], "x-table": {"deep": True}}


def begun(bench: Bench, command: str, *columns: str) -> tuple[Iterator[int], list[dict[str, Any]]]:
    """An answer of which only the first piece is made: `finished` makes the others."""
    found: list[dict[str, Any]] = []
    steps = pieces(bench.node, command, {"columns": list(columns)}, found)
    next(steps)
    return steps, found


def finished(steps: Iterator[int], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All of it; each piece is little work."""
    assert max(steps) <= 100
    assert json.loads(json.dumps(found)) == found
    return found


def test_what_goes_while_a_list_is_made_is_not_on_it(bench: Bench) -> None:
    """Neither is what comes; what comes again by the same name is, as it is by then."""
    for name in ("b", "c", "d"):
        bench.say(QueueDeclare(queue=name).frame(1))
    listing = begun(bench, "list_queues", "name", "durable", "messages")
    bindings = begun(bench, "list_bindings", "destination_name")
    for name in ("b", "c"):
        bench.say(QueueDelete(queue=name).frame(1))
    bench.say(QueueDeclare(queue="c", durable=True).frame(1))
    bench.say(QueueDeclare(queue="e").frame(1))
    bench.publish("d", 2)
    assert [tuple(row.values()) for row in finished(*listing)] == [
        ("orders", True, 0),
        ("c", True, 0),
        ("d", False, 2),
    ]
    names = [row["destination_name"] for row in finished(*bindings)]
    assert names == ["orders", "c", "d"]


@pytest.mark.parametrize("command", ["list_connections", "list_channels", "list_consumers"])
def test_who_goes_while_a_list_is_made_is_not_on_it(bench: Bench, command: str) -> None:
    readers = [bench.reader, bench.connect(40313), bench.connect(40314)]
    for reader in readers:
        bench.say(BasicConsume(queue="orders", consumer_tag=reader.name).frame(1), reader)
    assert len(bench.rows(command)) == 3
    half_made = begun(bench, command, *COLUMNS[command])
    readers[1].post(Closed("gone"))
    bench.settle()
    shown = [json.dumps(row) for row in finished(*half_made)]
    assert [any(reader.name in text for text in shown) for reader in readers] == [True, False, True]


def test_a_channel_that_goes_while_its_connection_is_listed(bench: Bench) -> None:
    bench.say(b"".join(ChannelOpen().frame(number) for number in (2, 3)))
    half_made = begun(bench, "list_channels", "number")
    closing = ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
    bench.say(closing.frame(2))
    assert finished(*half_made) == [{"number": 1}, {"number": 3}]


def test_status_of_queues_that_go_while_it_is_made(bench: Bench) -> None:
    bench.publish("orders", 3)
    bench.say(QueueDeclare(queue="more").frame(1))
    bench.publish("more", 2)
    status = begun(bench, "status")
    bench.say(QueueDelete(queue="more").frame(1))
    (row,) = finished(*status)
    assert row["Totals"]["messages_ready"] == 3
    assert row["Totals"]["queues"] == 1


def test_who_publishes_to_an_exchange_that_delays_may_wait_for_what_it_keeps(bench: Bench) -> None:
    arguments: Table = {"x-delayed-type": "direct"}
    later = ExchangeDeclare(
        exchange="later", exchange_type="x-delayed-message", arguments=arguments
    )
    bench.say(later.frame(1))
    head = header_frame(1, 0, BasicProperties(headers={"x-delay": 60_000}))
    bench.say(BasicPublish(exchange="later", routing_key="orders").frame(1) + head)
    (chain,) = finished(*begun(bench, "chain"))
    stages = {stage["id"]: stage for stage in chain["stages"]}
    links = {(link["sender"], link["receiver"]) for link in chain["links"]}
    assert {end for link in links for end in link} <= set(stages)
    (kept,) = [each for each in stages if stages[each]["name"] == "amq.delayed.later"]
    assert (f"{bench.reader.name} (1)", kept) in links


def test_chain_of_what_changes_while_it_is_drawn(bench: Bench) -> None:
    """What shuts after the beginning has not been shut for less than no time."""
    other = bench.connect(40313)
    drawing = begun(bench, "chain")
    bench.clock.ns += 1500 * MS
    bench.hold_up()
    bench.publish("orders", 59, other)
    bench.reader.post(Closed("gone"))
    bench.settle()
    bench.clock.ns += 500 * MS
    (chain,) = finished(*drawing)
    held = {row["id"]: row["blocked_ms"] for row in chain["stages"] if row["blocked_ms"]}
    assert held == dict.fromkeys(held, 500)
    assert "queue 'orders' in vhost '/'" in held
    assert all(0 <= link["blocked_ms"] <= 500 for link in chain["links"])


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("list_queue", {}, "unknown command list_queue"),
        ("list_queues", {"columns": ["size"]}, "list_queues has no column size; it has: name "),
        ("list_queues", {"vhost": "other"}, "Virtual host 'other' does not exist"),
    ],
)
def test_what_is_not_there_is_refused(
    bench: Bench, command: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(Refused) as refused:
        pieces(bench.node, command, arguments, [])
    assert str(refused.value).startswith(message)


def test_status_has_totals_limits_and_alarms(bench: Bench) -> None:
    bench.publish("orders", 3)
    bench.publish("nowhere", 2)
    (status,) = bench.rows("status")
    totals, since = status["Totals"], status["Since the start"]
    assert isinstance(totals, dict)
    assert isinstance(since, dict)
    assert (totals["connections"], totals["queues"], totals["messages_ready"]) == (1, 1, 3)
    assert (since["published"], since["dropped"]) == (5, 2)
    assert status["Alarms"] == {"none": ""}
    assert status["Disk"] == {"free_bytes": 1 << 40, "limit_bytes": 50_000_000, "data_dir": "none"}
    memory = status["Memory"]
    assert isinstance(memory, dict)
    assert memory["paging_bytes"] == memory["limit_bytes"] // 2
    assert memory["queue_duration_seconds"] == "infinity"
    bench.node.broker.alarms.raise_alarm(MEMORY, "low on memory (of course)")
    assert bench.rows("status")[0]["Alarms"] == {"memory": "low on memory (of course)"}


def stage_named(chain: dict[str, object], kind: str) -> dict[str, object]:
    stages = chain["stages"]
    assert isinstance(stages, list)
    found: dict[str, object] = next(stage for stage in stages if stage["kind"] == kind)
    return found


def shut_links(chain: dict[str, object]) -> set[tuple[str, str]]:
    links = chain["links"]
    assert isinstance(links, list)
    return {(link["sender"], link["receiver"]) for link in links if link["shut"]}


def test_chain_shows_credit_running_out_link_by_link(bench: Bench) -> None:
    bench.hold_up()
    bench.publish("orders", 59)
    bench.clock.ns += 1500 * MS
    (chain,) = bench.rows("chain")
    own = "127.0.0.1:40312 -> 127.0.0.1:5672"
    assert shut_links(chain) == {
        (own, f"{own} (1)"),
        (f"{own} (1)", "queue 'orders' in vhost '/'"),
        ("queue 'orders' in vhost '/'", "message store"),
        ("message store", "disk"),
    }
    reader = stage_named(chain, "reader")
    assert (reader["name"], reader["state"], reader["blocked_ms"]) == (
        "127.0.0.1:40312",
        "flow",
        1500,
    )
    assert stage_named(chain, "queue")["deferred"]
    waiting = stage_named(chain, "reader")["inbox"]
    stored = bench.rows("list_queues", "messages")[0]["messages"]
    assert isinstance(waiting, int)
    assert isinstance(stored, int)
    assert 0 < waiting + stored <= 60

    bench.disk.catch_up()
    bench.settle()
    bench.no_longer_held()
    (chain,) = bench.rows("chain")
    assert shut_links(chain) == set()
    assert stage_named(chain, "reader")["blocked_total_ms"] == 1500
    assert bench.rows("list_queues", "messages") == [{"messages": 60}]


def test_chain_conserves_credit_on_every_link(bench: Bench) -> None:
    bench.hold_up()
    bench.publish("orders", 59)
    (chain,) = bench.rows("chain")
    links = chain["links"]
    assert isinstance(links, list)
    credit_links = [link for link in links if link["initial"]]
    assert len(credit_links) == 3
    for link in credit_links:
        held = link["credit"] + link["owed"] + link["withheld"] + link["deferred"]
        assert held == link["initial"], link


def elsewhere(bench: Bench, vhost: str, *queues: str) -> Reader:
    """Somebody in a virtual host of its own, with these queues."""
    bench.do("add_vhost", vhost=vhost)
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    bench.do("set_permissions", username="guest", vhost=vhost, **every)
    reader = bench.connect(40400 + len(bench.node.broker.vhosts), vhost)
    for name in queues:
        bench.say(QueueDeclare(queue=name).frame(1), reader)
    return reader


def test_chain_parts_queues_of_one_name_in_two_virtual_hosts(bench: Bench) -> None:
    other = elsewhere(bench, "west", "orders")
    bench.publish("orders", 1)
    bench.publish("orders", 1, other)
    (chain,) = bench.rows("chain")
    stages, links = chain["stages"], chain["links"]
    assert isinstance(stages, list)
    assert isinstance(links, list)
    queues = {stage["id"]: stage["name"] for stage in stages if stage["kind"] == "queue"}
    assert sorted(queues.values()) == ["orders", "orders in vhost west"]
    to = {link["receiver"]: link["sender"] for link in links if link["receiver"] in queues}
    named = {queues[queue]: channel for queue, channel in to.items()}
    assert named == {
        "orders": f"{bench.reader.name} (1)",
        "orders in vhost west": f"{other.name} (1)",
    }


def test_every_stage_of_the_chain_has_an_id_of_its_own(bench: Bench) -> None:
    """Whatever queues and virtual hosts are called."""
    elsewhere(bench, "z", "x' in vhost 'y")
    elsewhere(bench, "y' in vhost 'z", "x")
    elsewhere(bench, 'y" in vhost "z', "x", "message store")
    (chain,) = bench.rows("chain")
    stages = chain["stages"]
    assert isinstance(stages, list)
    ids = [stage["id"] for stage in stages]
    assert len(ids) == len(set(ids))
    assert sum(stage["kind"] == "queue" for stage in stages) == 5


def test_chain_names_the_alarm(bench: Bench) -> None:
    bench.node.broker.alarms.raise_alarm(MEMORY, "low on memory (of course)")
    bench.publish("orders", 2)
    (chain,) = bench.rows("chain")
    own = "127.0.0.1:40312 -> 127.0.0.1:5672"
    assert (own, "alarm memory") in shut_links(chain)
    alarm = stage_named(chain, "alarm")
    assert (alarm["name"], alarm["state"]) == ("memory alarm", "low on memory (of course)")
    assert stage_named(chain, "reader")["state"] == "blocked"


def test_chain_tells_which_client_does_not_read(bench: Bench) -> None:
    bench.reader.writer.choked = True
    (chain,) = bench.rows("chain")
    assert stage_named(chain, "writer")["state"] == "waiting for the client to read"


def test_chain_and_status_tell_that_publishers_are_held(bench: Bench) -> None:
    pacer = bench.node.broker.pacer
    assert pacer is not None
    pacer.note(QueuePace(), 5000, 100, 4900)
    bench.reader.intake.schedule()
    (chain,) = bench.rows("chain")
    assert stage_named(chain, "pacer")["state"] == "deals out first: 4900 messages behind"
    pacer.note_under_way(QueuePace(), 700, 600)
    (chain,) = bench.rows("chain")
    behind = "deals out first: 4900 messages behind, 600 not agreed on"
    assert stage_named(chain, "pacer")["state"] == behind
    assert (bench.reader.name, "pacer") in shut_links(chain)
    assert stage_named(chain, "reader")["state"] == "flow"
    (status,) = bench.rows("status")
    assert status["Flow control"]["publishers_held"] is True
    assert status["Flow control"]["publishers_held_count"] == 1
    assert status["Flow control"]["queues_lag_messages"] == 4900
    assert status["Flow control"]["queues_under_way_messages"] == 600
