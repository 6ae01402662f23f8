"""a task ---of which node?---> NODE POST <---frames---> the posts of the other nodes

Each node of a cluster has one, so that one management process shows all nodes: it asks its own
node, which passes on the questions for others. A command that answers page by page does so here,
too: one page is under way at a time, so a slow node makes its asker wait, and nothing piles up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, ValidationError, convert

from sluicemq.cluster.cluster_port import (
    NODE_COMMAND,
    NodeDown,
    NodeStanding,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
    PeerMessage,
)
from sluicemq.kernel.actor import Actor
from sluicemq.manage.command import LATER, UNAVAILABLE
from sluicemq.manage.task import CommandAnswer, GoOn, Reply

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import Clock, Log

PAGE_WAIT_MS: Final = 2000
"""The time that another node may take for a page."""

ASKED_MAX: Final = 100
"""The most pages of other nodes that are waited for at a time; further questions are refused until
later."""

BEGUN_MAX: Final = 16
"""The most commands of one other node that are under way here, or wait to go on; with one more the
oldest is dropped."""

FOR_NODES: Final = (
    *("node_figures", "records", "close_connection", "close_all_user_connections"),
    *("sync_queue", "cancel_sync_queue"),
)
"""The commands that other nodes may send to this one."""


class NodeCommand(Struct, omit_defaults=True):
    """The content of a frame. A question has a `command` with `arguments`, or in `after` the number
    of the page before the one that it wants; an answer has `answer`, as the control socket has it.
    The asker gives the numbers."""

    number: int
    command: str = ""
    arguments: dict[str, Any] = {}
    after: int = 0
    answer: dict[str, Any] | None = None


class AskNode(NamedTuple):
    """Posted to the post: `asker` wants the node of that name to carry out a command; with `after`,
    to answer the page that follows the one of that number."""

    asker: Actor
    node: str
    command: str
    arguments: Mapping[str, Any]
    after: int = 0


class NodePage(NamedTuple):
    """Posted to the asker: the answer, or a page of it with its number."""

    answer: CommandAnswer
    number: int = 0


class PageTimeout:
    """A timer's message to the post: the wait for the page of that number is over."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Begun(Protocol):
    """A command that this node carries out, as the post sees it."""

    def post(self, message: object) -> None:
        """Tell the command to go on."""

    def abandon(self) -> None:
        """Tell the command that nobody waits for it any more."""


BeginHere: TypeAlias = Callable[[str, Mapping[str, Any], Reply], Begun]
"""Begins a command of this node with its arguments; it answers by calling the last parameter."""


class NodePost(Actor):
    """The post of a node, which `cluster` links to the others; `begin` carries out their
    commands."""

    is_vital = False

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        log: Log,
        cluster: ClusterPort,
        begin: BeginHere,
    ) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.log = log
        self.cluster = cluster
        self.begin_here = begin
        self.last_number = 0
        self.asked: dict[int, tuple[int, AskNode]] = {}
        """The node that owes each page, and the question for it, by number."""
        self.begun: dict[int, dict[int, Begun | None]] = {}
        """The commands under way by node, and by the number of the last page asked for; None while
        one begins."""
        cluster.handle(NODE_COMMAND, self)
        cluster.follow(self)

    def receive(self, message: object) -> None:
        if isinstance(message, AskNode):
            self.ask(message)
        elif isinstance(message, PeerMessage):
            self.take(message.source.node, message.payload)
        elif isinstance(message, PageTimeout):
            _, question = self.asked.pop(message.number, (0, None))
            if question is not None:
                text = f"node {question.node} does not answer in time"
                question.asker.post(NodePage(CommandAnswer((), text, LATER)))
        elif isinstance(message, NodeDown):
            self.lose(message.node)
        else:
            assert isinstance(message, NodeUp | NodeSuspected | NodeTrusted), repr(message)

    def faulted(self, error: Exception) -> None:
        """Go on: an asker whose question was at fault waits until its timeout."""

    def ask(self, question: AskNode) -> None:
        """Send a question to its node, or answer why that is impossible."""
        cluster = self.cluster
        others = [node for node in cluster.nodes if node != cluster.node]
        [node] = [each for each in others if cluster.name_of(each) == question.node] or [0]
        self.last_number += 1
        sent = NodeCommand(
            self.last_number, question.command, dict(question.arguments), question.after
        )
        if not node:
            text, code = f"the cluster has no other node {question.node}", UNAVAILABLE
        elif len(self.asked) >= ASKED_MAX:
            text, code = "too much was asked of other nodes already", LATER
        elif cluster.standing(node) is NodeStanding.DOWN or not cluster.send(
            node, NODE_COMMAND, encoded(sent)
        ):
            text, code = f"node {question.node} is down", UNAVAILABLE
        else:
            self.asked[self.last_number] = node, question
            self.clock.call_after(PAGE_WAIT_MS, self, PageTimeout(self.last_number))
            return
        question.asker.post(NodePage(CommandAnswer((), text, code)))

    def take(self, node: int, payload: bytes) -> None:
        """Handle a question or an answer of another node."""
        try:
            said = convert(json.loads(payload), NodeCommand)
        except (ValueError, RecursionError, ValidationError) as error:
            text = f"a command that does not parse ({error})"
            self.log.write("error", f"node {node} has sent {text}: its link is set up again")
            self.cluster.end_link(node, text)
            return
        if said.answer is None:
            self.carry_out(node, said)
            return
        where, question = self.asked.get(said.number, (0, None))
        if question is not None and where == node:
            del self.asked[said.number]
            self.spend(len(payload) >> 10)
            question.asker.post(NodePage(answer_in(said.answer), said.number))

    def carry_out(self, node: int, said: NodeCommand) -> None:
        """Begin or continue the command of another node, and send it the answer."""
        begun = self.begun.setdefault(node, {})

        def reply(answer: CommandAnswer) -> None:
            if not answer.more:
                begun.pop(said.number, None)
            self.cluster.send(
                node, NODE_COMMAND, encoded(NodeCommand(said.number, answer=answer.as_json()))
            )

        if said.after:
            task = begun.pop(said.after, None)
            if task is None:
                reply(CommandAnswer((), "what it was to go on with is over", LATER))
            else:
                begun[said.number] = task
                task.post(GoOn(reply))
        elif said.command not in FOR_NODES:
            reply(CommandAnswer((), f"{said.command} is not for other nodes", UNAVAILABLE))
        else:
            if len(begun) >= BEGUN_MAX:
                self.drop(begun.pop(next(iter(begun))))
            begun[said.number] = None
            task = self.begin_here(said.command, said.arguments, reply)
            if said.number in begun:  # it is not, if it was answered at once
                begun[said.number] = task

    def drop(self, task: Begun | None) -> None:
        """End a command early, because nobody waits for it."""
        if task is not None:
            task.abandon()

    def lose(self, node: int) -> None:
        """Answer all questions to a node that went down with an error, and end its commands."""
        for task in self.begun.pop(node, {}).values():
            self.drop(task)
        for number, (where, question) in [*self.asked.items()]:
            if where == node:
                del self.asked[number]
                text = f"node {question.node} went down"
                question.asker.post(NodePage(CommandAnswer((), text, UNAVAILABLE)))


def answer_in(found: Mapping[str, Any]) -> CommandAnswer:
    """Return the answer that was sent in this form."""
    return CommandAnswer(
        found.get("rows", ()),
        found.get("error", ""),
        found.get("code", 0),
        found.get("more", False),
    )


def encoded(message: NodeCommand) -> bytes:
    """Return the frame of a message."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return json.dumps({name: value for name, value in fields.items() if value}).encode()
