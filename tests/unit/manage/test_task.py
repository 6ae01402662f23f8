"""Goal: a control command is answered once, when what it changed is durable, or with why not.

Method: the node of bench.py, with a disk that holds still when told to.
"""

from __future__ import annotations

from functools import partial

import pytest

from sluicemq.amqp.methods import QueueDeclare
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.command import UNAVAILABLE, Command
from sluicemq.manage.commands import COMMANDS
from sluicemq.manage.lists import LISTS
from sluicemq.manage.task import CommandAnswer, start
from sluicemq.manage.views import SINGLE

from .bench import Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.say(QueueDeclare(queue="orders", durable=True).frame(1))
    return bench


def test_the_table_and_what_is_done_are_in_step() -> None:
    assert set(COMMANDS) == set(ACTIONS)
    assert not set(COMMANDS) & ({*LISTS} | {*SINGLE})


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_says_names_its_own_arguments(command: Command) -> None:
    names = [each.name for each in (*command.arguments, *command.options)]
    assert len(set(names)) == len(names)
    secret = [each.name for each in command.arguments if each.secret]
    given = {name: name for name in [*names, "vhost"] if name not in secret}
    command.announces.format_map(given)
    assert set(command.shown) <= set(command.columns or ())


def test_a_queue_is_deleted_when_that_is_durable(bench: Bench) -> None:
    bench.disk.slow = True
    answers = bench.begin("delete_queue", queue="orders")
    bench.settle()
    assert answers == []
    bench.disk.catch_up()
    bench.settle()
    assert [answer.error for answer in answers] == [""]
    assert bench.rows("list_queues") == []


def test_a_queue_with_messages_is_not_deleted_if_it_must_be_empty(bench: Bench) -> None:
    bench.publish("orders", 2)
    refused = bench.ask("delete_queue", queue="orders", if_empty=True)
    assert "not empty" in refused.error
    assert refused.code == UNAVAILABLE
    bench.do("purge_queue", queue="orders")
    bench.do("delete_queue", queue="orders", if_empty=True)


def test_what_is_not_there_is_told(bench: Bench) -> None:
    assert bench.ask("purge_queue", queue="nothing").code == UNAVAILABLE
    assert bench.ask("purge_queue", queue="orders", vhost="other").code == 65
    assert bench.ask("purge_queue", queue=5).code == 64
    assert "unknown command" in bench.ask("rubbish").error


def test_a_failed_storage_refuses_changes(bench: Bench) -> None:
    bench.node.broker.store.fail_storage("EIO")
    assert "storage has failed" in bench.ask("delete_queue", queue="orders").error


LONG = (
    "list_queues",
    "list_bindings",
    "status",
    "chain",
    "export_definitions",
    "list_unresponsive_queues",
)


@pytest.fixture(scope="module")
def crowd() -> Bench:
    """A node with a thousand queues."""
    bench = Bench()
    declares = [QueueDeclare(queue=f"q{number}", nowait=True).frame(1) for number in range(1000)]
    bench.say(b"".join(declares))
    return bench


@pytest.mark.parametrize("command", LONG)
def test_a_long_answer_is_made_in_many_turns(crowd: Bench, command: str) -> None:
    """Somebody else's command is answered between them."""
    answered: list[str] = []

    def begin(name: str) -> None:
        start(crowd.node, ACTIONS, name, {"file": "-"}, lambda _: answered.append(name))

    begin(command)
    assert crowd.node.run(1)
    begin("list_users")
    crowd.settle()
    assert answered == ["list_users", command]


def test_two_long_lists_are_made_side_by_side(crowd: Bench) -> None:
    answers: dict[str, CommandAnswer] = {}

    for name in ("list_queues", "list_bindings"):
        start(crowd.node, ACTIONS, name, {}, partial(answers.__setitem__, name))
    turns = 0
    while not answers:
        assert crowd.node.run(1)
        turns += 1
    assert turns > 10
    for _ in range(turns // 2):
        crowd.node.run(1)
    assert [row["name"] for row in answers["list_queues"].rows] == [f"q{n}" for n in range(1000)]
    assert len(answers["list_bindings"].rows) == 1000


@pytest.mark.parametrize("command", ["list_queues", "chain", "export_definitions"])
def test_what_nobody_waits_for_is_not_made_to_its_end(crowd: Bench, command: str) -> None:
    answers: list[CommandAnswer] = []
    task = start(crowd.node, ACTIONS, command, {}, answers.append)
    assert crowd.node.run(1)
    task.abandon()
    assert not crowd.node.run(2), "it still works"
    assert answers == []


def test_a_change_is_made_though_nobody_waits_for_it(bench: Bench) -> None:
    bench.disk.slow = True
    answers: list[CommandAnswer] = []
    task = start(bench.node, ACTIONS, "delete_queue", {"queue": "orders"}, answers.append)
    bench.settle()
    task.abandon()
    bench.disk.catch_up()
    bench.settle()
    assert answers == []
    assert bench.rows("list_queues") == []
