"""Goal: what the management process asks is answered: records with traffic, page by page, who may
log in, users, figures. Method: the node of bench.py.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sluicemq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from sluicemq.limits import RECORDS_A_PAGE
from sluicemq.manage.gateway import GATEWAY
from sluicemq.manage.record_columns import RECORDS
from sluicemq.manage.records import KINDS
from sluicemq.manage.task import CommandAnswer, GoOn, start

from .bench import Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.say(QueueDeclare(queue="orders", durable=True).frame(1))
    return bench


def records(bench: Bench, kind: str, **more: object) -> list[dict[str, Any]]:
    answer = bench.ask("records", kind=kind, **more)
    assert not answer.error
    return [dict(zip(RECORDS[kind], values, strict=True)) for values in answer.rows]


def test_every_kind_has_a_record_with_all_its_values(bench: Bench) -> None:
    bench.say(BasicConsume(queue="orders", consumer_tag="c").frame(1))
    assert set(KINDS) == set(RECORDS)
    for kind in KINDS:
        assert len({*RECORDS[kind]}) == len(RECORDS[kind]), "two values of one name"
        assert records(bench, kind), kind


def test_traffic_is_counted_at_channel_queue_exchange_and_virtual_host(bench: Bench) -> None:
    bench.say(ConfirmSelect().frame(1))
    bench.say(ExchangeDeclare("e", "fanout").frame(1))
    bench.say(QueueDeclare(queue="copies").frame(1))
    for queue in ("orders", "copies"):
        bench.say(QueueBind(queue=queue, exchange="e").frame(1))
    bench.publish("orders", 5)
    bench.publish("nowhere", 2)
    fanout = BasicPublish(exchange="e").frame(1)
    content = bench.content()
    bench.say((fanout + content) * 3)
    bench.say(BasicPublish(routing_key="nowhere", mandatory=True).frame(1) + content)
    bench.no_longer_held()
    for _ in range(2):
        bench.say(BasicGet(queue="orders").frame(1))
    bench.say(BasicGet(queue="copies", no_ack=True).frame(1))
    bench.say(BasicAck(delivery_tag=1).frame(1))
    bench.say(BasicNack(delivery_tag=2, requeue=True).frame(1))
    bench.say(BasicConsume(queue="orders", consumer_tag="c").frame(1))
    bench.say(BasicGet(queue="orders").frame(1))

    wanted = {
        "publish": 11,
        "confirm": 11,
        "drop_unroutable": 2,
        "return_unroutable": 1,
        "get": 2,
        "get_no_ack": 1,
        "get_empty": 1,
        "deliver": 7,
        "deliver_no_ack": 0,
        "redeliver": 1,
        "ack": 1,
    }
    [channel] = records(bench, "channels")
    [vhost] = records(bench, "vhosts")
    for whose in (channel, vhost):
        assert {name: whose[name] for name in wanted} == wanted
    orders, copies = records(bench, "queues")
    assert [orders[name] for name in ("publish", "get", "deliver", "ack")] == [8, 2, 7, 1]
    assert [copies[name] for name in ("publish", "get_no_ack", "ack")] == [3, 1, 0]
    exchanges = {each["name"]: each for each in records(bench, "exchanges")}
    assert [exchanges["e"][name] for name in ("publish_in", "publish_out")] == [3, 6]
    assert [exchanges[""][name] for name in ("publish_in", "publish_out")] == [8, 5]
    [figures] = bench.do("node_figures")
    assert sum(figures["histograms"]["confirm_latency"]["counts"]) > 0  # type: ignore[index]
    assert sum(figures["histograms"]["group_size"]["counts"]) > 0  # type: ignore[index]


def test_what_comes_and_goes_is_counted(bench: Bench) -> None:
    bench.say(QueueDeclare(queue="other").frame(1))
    bench.say(QueueDeclare(queue="other").frame(1))
    bench.say(QueueDelete(queue="other").frame(1))
    bench.say(ChannelClose(200, "bye", 0, 0).frame(1))
    [row] = bench.do("node_figures")
    counters: Any = row["counters"]
    assert [counters[f"queues_{each}"] for each in ("declared", "created", "deleted")] == [3, 2, 1]
    assert [counters[f"channels_{each}"] for each in ("opened", "closed")] == [1, 1]
    assert [counters[f"connections_{each}"] for each in ("opened", "closed")] == [1, 0]


def test_a_long_list_comes_in_pages_each_asked_for(bench: Bench) -> None:
    count = 2 * RECORDS_A_PAGE + 10
    bench.say(b"".join(QueueDeclare(queue=f"q{n}", nowait=True).frame(1) for n in range(count)))
    answers: list[CommandAnswer] = []
    task = start(bench.node, GATEWAY, "records", {"kind": "queues"}, answers.append)
    bench.settle()
    while answers[-1].more:
        sizes = len(answers)
        bench.settle()
        assert len(answers) == sizes, "a page that nobody has asked for"
        task.post(GoOn(answers.append))
        bench.settle()
    assert [len(answer.rows) for answer in answers] == [RECORDS_A_PAGE, RECORDS_A_PAGE, 11]
    names = [values[0] for answer in answers for values in answer.rows]
    assert names == ["orders", *(f"q{n}" for n in range(count))]
    assert all(one is not other for one, other in pairwise(answers))


@pytest.mark.parametrize("kind", ["queues", "bindings", "exchanges"])
def test_no_turn_makes_more_than_so_many_records(
    bench: Bench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many milliseconds that is says bench/turns.py."""
    for at in range(300):
        bench.say(
            QueueDeclare(queue=f"q{at}", nowait=True).frame(1)
            + ExchangeDeclare(f"e{at}", "fanout", nowait=True).frame(1)
        )
    made = 0
    items, record = KINDS[kind]

    def counting(item: Any) -> list[Any]:
        nonlocal made
        made += 1
        return record(item)

    monkeypatch.setitem(KINDS, kind, (items, counting))
    start(bench.node, GATEWAY, "records", {"kind": kind}, lambda _: None)
    turns: list[int] = []
    is_busy = True
    while is_busy:
        before = made
        is_busy = bench.node.run(1)
        turns.append(made - before)
    assert made == RECORDS_A_PAGE
    assert max(turns) <= 100


def test_one_queue_is_found_by_its_name(bench: Bench) -> None:
    assert [each["name"] for each in records(bench, "queues", name="orders", vhost="/")] == [
        "orders"
    ]
    assert records(bench, "queues", name="nothing", vhost="/") == []
    assert records(bench, "queues", name="orders", vhost="other") == []
    assert "no kind" in bench.ask("records", kind="rubbish").error


def test_who_logs_in_is_told_tags_and_virtual_hosts(bench: Bench) -> None:
    told = {"name": "guest", "tags": ["administrator"], "vhosts": ["/"]}
    asked = {"username": "guest", "from_loopback": True}
    assert bench.do("log_in", password="guest", **asked) == [told]
    assert bench.do("log_in", vouched=True, **asked) == [told]
    assert "invalid credentials" in bench.ask("log_in", password="other", **asked).error
    assert "blank" in bench.ask("log_in", password="", **asked).error
    asked["from_loopback"] = False
    assert "localhost" in bench.ask("log_in", password="guest", **asked).error


def test_a_user_is_made_changed_and_keeps_the_password(bench: Bench) -> None:
    bench.do("set_user", username="eve", password="apple", tags=["monitoring"])
    bench.do("set_user_limits", username="eve", definition='{"max-channels": 3}')
    bench.do("set_user", username="eve", tags=["management", "management"])
    asked = {"username": "eve", "password": "apple", "from_loopback": False}
    assert bench.do("log_in", **asked) == [{"name": "eve", "tags": ["management"], "vhosts": []}]
    users = {each["name"]: each for each in bench.do("declared", table="users")}
    assert users["eve"]["limits"] == {"max-channels": 3}
    password_hash = users["eve"]["password_hash"]
    bench.do("set_user", username="adam", password_hash=password_hash, tags=[])
    assert bench.do("log_in", **{**asked, "username": "adam"})
    assert "password" in bench.ask("set_user", username="new", tags=[]).error
    assert "base64" in bench.ask("set_user", username="new", password_hash="%", tags=[]).error


def test_a_virtual_host_is_described(bench: Bench) -> None:
    bench.do(
        "describe_vhost", vhost="/", description="all", tags=["a"], default_queue_type="quorum"
    )
    [vhost] = records(bench, "vhosts")
    assert (vhost["description"], vhost["tags"], vhost["default_queue_type"]) == (
        "all",
        ["a"],
        "quorum",
    )
    assert bench.ask("describe_vhost", vhost="none").error
    assert bench.ask("describe_vhost", vhost="/", default_queue_type="rubbish").error


@pytest.mark.parametrize("table", ["permissions", "policies", "operator_policies", "parameters"])
def test_what_is_declared_is_shown(bench: Bench, table: str) -> None:
    bench.do("set_policy", name="p", pattern=".*", definition='{"max-length": 5}')
    bench.do("set_operator_policy", name="o", pattern=".*", definition='{"max-length": 5}')
    bench.do("set_parameter", component="c", name="n", value="1")
    [row] = bench.do("declared", table=table)
    assert row["vhost"] == "/"
