"""Goal: a node answers for people what another node knows, page by page; and nobody waits for long,
or makes much pile up, when that node is down, does not answer, asks nonsense or hangs up.

Method: whole nodes over the wire of paired.py, with the post of each.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from sluicemq.cluster.cluster_port import NODE_COMMAND
from sluicemq.manage import node_post
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.gateway import GATEWAY
from sluicemq.manage.node_post import NodeCommand, NodePost, encoded
from sluicemq.manage.task import CommandAnswer, GoOn, Task, start
from support.paired import Group, PairedBroker

COMMANDS = {**ACTIONS, **GATEWAY}


@pytest.fixture
def group() -> Group:
    group = Group()
    for number in group.numbers:
        broker = group[number]
        node, world = broker.node, broker.world
        begin = partial(start, node, COMMANDS)
        node.node_post = NodePost(node.scheduler, world.clock, node.world.log, broker.wire, begin)
    return group


class Question:
    """What node 1 is asked about another node; `answers` are its pages."""

    def __init__(self, group: Group, command: str, node: str = "n2", **arguments: object) -> None:
        self.group = group
        self.answers: list[CommandAnswer] = []
        asked = {"node": node, "command": command, "arguments": arguments}
        self.task: Task = start(group[1].node, COMMANDS, "of_node", asked, self.answers.append)
        group.run()

    def go_on(self) -> None:
        self.task.post(GoOn(self.answers.append))
        self.group.run()

    @property
    def refusal(self) -> tuple[str, int]:
        [answer] = self.answers
        return answer.error, answer.code


def post_of(broker: PairedBroker) -> NodePost:
    assert isinstance(broker.node.node_post, NodePost)
    return broker.node.node_post


def names(answer: CommandAnswer) -> list[Any]:
    return [row[0] for row in answer.rows]


def test_it_answers_what_the_other_node_has_page_by_page(group: Group) -> None:
    for number in range(5):
        group.declare(f"q{number}", home=2)
    group.declare("elsewhere", home=1)
    question = Question(group, "records", kind="queues", at_home=True, page=2)
    while question.answers[-1].more:
        question.go_on()
    assert [names(page) for page in question.answers] == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    assert not post_of(group[1]).asked
    assert not post_of(group[2]).begun[1]


def test_figures_are_those_of_the_other_node(group: Group) -> None:
    group.declare("q", home=2)
    question = Question(group, "node_figures")
    [row] = question.answers[0].rows
    assert (row["totals"]["queues"], row["totals"]["connections"]) == (1, 0)


def test_a_node_that_is_down_or_goes_down_is_not_waited_for(group: Group) -> None:
    group.held.add((2, 1))
    question = Question(group, "node_figures")
    assert not question.answers
    group.cut(1, 2)
    group.run()
    assert question.refusal == ("node n2 went down", 69)
    assert Question(group, "node_figures").refusal == ("node n2 is down", 69)
    assert (
        Question(group, "node_figures", node="n9").refusal[0] == "the cluster has no other node n9"
    )


def test_one_that_does_not_answer_is_waited_for_for_a_time(group: Group) -> None:
    group.held.add((2, 1))
    question = Question(group, "node_figures")
    group[1].world.clock.advance(node_post.PAGE_WAIT_MS)
    group.run()
    assert question.refusal == ("node n2 does not answer in time", 75)
    group.held.clear()
    group.run()  # its answer, which nobody waits for
    assert len(question.answers) == 1


def test_what_is_not_for_other_nodes_is_refused_as_faults_of_the_asker_are(group: Group) -> None:
    assert Question(group, "stop").refusal == ("stop is not for other nodes", 69)
    assert "there is no kind nonsense" in Question(group, "records", kind="nonsense").refusal[0]


def test_so_many_are_at_work_for_a_node_and_the_oldest_is_dropped(group: Group) -> None:
    for number in range(2):
        group.declare(f"q{number}", home=2)
    asked = [
        Question(group, "records", kind="queues", page=1) for _ in range(node_post.BEGUN_MAX + 1)
    ]
    assert len(post_of(group[2]).begun[1]) == node_post.BEGUN_MAX
    asked[0].go_on()
    assert asked[0].answers[-1].error == "what it was to go on with is over"
    asked[1].go_on()
    assert names(asked[1].answers[-1]) == ["q1"]
    group.cut(1, 2)
    group.run()
    assert 1 not in post_of(group[2]).begun


def test_so_many_pages_are_waited_for(group: Group) -> None:
    group.held.add((2, 1))
    for _ in range(node_post.ASKED_MAX):
        Question(group, "node_figures")
    late = Question(group, "node_figures")
    assert late.refusal == ("too much was asked of other nodes already", 75)


@pytest.mark.parametrize("payload", [b"\xff", b"[]", b'{"number": "x"}', b"[" * 100_000])
def test_what_does_not_parse_ends_the_link(group: Group, payload: bytes) -> None:
    group[2].wire.send(1, NODE_COMMAND, payload)
    group.run()
    assert group[1].wire.ended
    assert not group.is_up(1, 2)


def test_an_answer_that_nobody_has_asked_for_is_dropped(group: Group) -> None:
    answer = NodeCommand(7, answer={"ok": True, "rows": []})
    group[2].wire.send(1, NODE_COMMAND, encoded(answer))
    group.run()
    assert group.is_up(1, 2)
