"""A control command at work: an actor, because its changes are durable only later.

The control socket's end (`host/control.py`) calls `start`, which calls it back with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sluicemq.errors import ProtocolViolation, Refused
from sluicemq.kernel.actor import Actor
from sluicemq.manage.command import DATA, SOFTWARE, UNAVAILABLE, CommandRefused, Given
from sluicemq.manage.commands import COMMANDS
from sluicemq.manage.views import Row, pieces
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.model.definitions import DEFAULT_VHOST
from sluicemq.text import readable

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.metadata.changes import Change
    from sluicemq.node import Node


class CommandAnswer(NamedTuple):
    """The answer of a command: rows, or an error with its exit code. `more`: it is a page, and the
    next one follows when the task is told to go on."""

    rows: Sequence[Any] = ()
    error: str = ""
    code: int = 0
    more: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the answer in the form that it has on the control socket."""
        if self.error:
            return {"ok": False, "error": self.error, "code": self.code}
        if self.more:
            return {"ok": True, "more": True, "rows": list(self.rows)}
        return {"ok": True, "rows": list(self.rows)}


BEFORE_MEMBERSHIP: Final = frozenset(
    ("status", "stop", *(name for name, command in COMMANDS.items() if command.of_health))
)
"""The commands that a node answers before it is open, that is, a member of its cluster with all
definitions."""

NO_MEMBER_YET: Final = CommandAnswer(
    (),
    "this node is not a member of its cluster yet, or has not got all that is declared there;"
    " `sluicemq ctl cluster_status` shows which nodes it sees",
    UNAVAILABLE,
)

Reply = Callable[[CommandAnswer], None]
Action = Callable[["Task", Given], None]


class Begin:
    """Tells a task to begin its command."""

    __slots__ = ("action", "given")

    def __init__(self, action: Action, given: Given) -> None:
        self.action = action
        self.given = given


class GoOn:
    """Tells a task that its last page has been taken, so that it makes the next one."""

    __slots__ = ("reply",)

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


class Task(Actor):
    """Carries out one command. It begins in a turn of its own, so that every answer shows that the
    broker gives turns. It answers once, or once a page; later answers are dropped."""

    is_vital = False

    def __init__(self, node: Node, reply: Reply) -> None:
        super().__init__(node.broker.scheduler)
        self.node = node
        self.reply: Reply | None = reply
        self.waiting = 0
        self.rows: Sequence[Row] = ()
        self.policies_in: list[str] = []
        """Virtual hosts whose queues must hear of changes that are not agreed on yet."""
        self.message_handler: Callable[[object], None] | None = None

    @property
    def broker(self) -> Broker:
        return self.node.broker

    def vhost(self, given: Given) -> VirtualHost:
        """Return the virtual host that -p names. Raises CommandRefused when there is none."""
        name = given.text("vhost", DEFAULT_VHOST)
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            raise CommandRefused(f"Virtual host '{name}' does not exist", DATA)
        return vhost

    def propose(
        self, change: Change, answer: Sequence[Row] = (), policies_in: Iterable[str] = ()
    ) -> None:
        """Ask for a change of the definitions: the command succeeds, with this answer, when the
        change is agreed on and durable, and the queues of the virtual hosts `policies_in` have
        heard of it. May be called more than once in a turn."""
        self.rows = answer
        self.waiting += 1  # the command must not end before all changes have been asked for
        agreement = self.broker.agreement
        try:
            if not agreement.propose(change, self):
                self.expect()
        except NoAgreement as error:
            raise CommandRefused(str(error), SOFTWARE) from error
        self.policies_in += policies_in
        if agreement.applies_at_once:
            self.notify_queues()
        self.done()

    def notify_queues(self) -> None:
        """Wait until the queues of the virtual hosts `policies_in` know which policies apply."""
        policies_in, self.policies_in = self.policies_in, []
        for vhost in policies_in:
            self.broker.policy_rounds.notify(vhost, self.expect())

    def expect(self) -> Callable[[], None]:
        """Wait for one thing more before the answer; the caller calls the returned function when it
        is done."""
        self.waiting += 1
        return self.done

    def done(self) -> None:
        """Count one of the things waited for as done; the command succeeds with the last."""
        self.waiting -= 1
        if not self.waiting:
            self.finish(self.rows)

    def on_message(self, function: Callable[[object], None]) -> None:
        """Have `function` called with messages to this task, except for answers to `propose`."""
        self.message_handler = function

    def finish(self, answer: Sequence[Row] = ()) -> None:
        """Answer with rows: the command has succeeded."""
        self.answer(CommandAnswer(answer))

    def look(self, pieces: Iterator[int], found: Sequence[Row]) -> None:
        """Do long work that changes nothing, in pieces, then succeed with the rows in `found`. It
        ends early when nobody waits for it any more."""
        self.begin(self.looking(pieces, found))

    def look_at_pages(self, pieces: Iterator[int], found: list[Any], page_rows: int) -> None:
        """Do long work that changes nothing as `look` does, but answer with pages of `page_rows`
        rows out of `found`; the next page begins when the task is told to go on."""

        def page() -> Iterator[int]:
            for work in pieces:
                if len(found) >= page_rows:
                    rows = [*found]
                    found.clear()
                    self.answer(CommandAnswer(rows, more=True))
                if self.reply is None:
                    return
                yield work
            self.finish(found)

        def on_message(message: object) -> None:
            if isinstance(message, GoOn):
                self.reply = message.reply
                self.begin(page())

        self.on_message(on_message)
        self.begin(page())

    def looking(self, pieces: Iterator[int], found: Sequence[Row]) -> Iterator[int]:
        """Do the pieces while somebody waits for the answer."""
        for work in pieces:
            if self.reply is None:
                return
            yield work
        self.finish(found)

    def abandon(self) -> None:
        """End work that only looks, because nobody waits for the answer any more. A change that was
        begun is made."""
        self.reply = None

    def fail(self, error: Exception) -> None:
        """Answer with an error: the command has failed."""
        self.answer(answer_to(error))

    def answer(self, answer: CommandAnswer) -> None:
        """Give the answer, unless one was given before or nobody waits for it."""
        reply, self.reply = self.reply, None
        if reply is not None:
            reply(answer)

    def faulted(self, error: Exception) -> None:
        """Answer that the command has had a fault; the task does nothing else afterwards."""
        self.go_deaf()
        text = f"the broker has failed in this command ({type(error).__name__}); see its log"
        self.answer(CommandAnswer((), text, SOFTWARE))

    def receive(self, message: object) -> None:
        if isinstance(message, Begin):
            try:
                message.action(self, message.given)
            except (Refused, ProtocolViolation) as error:
                self.fail(error)
        elif isinstance(message, Agreed):
            if isinstance(message.refusal, NoAgreement):
                self.answer(CommandAnswer((), str(message.refusal), SOFTWARE))
            elif message.refusal is not None:
                self.fail(message.refusal)
            else:
                self.notify_queues()
            self.done()
        elif self.message_handler is not None and (self.reply or isinstance(message, GoOn)):
            try:
                self.message_handler(message)
            except (Refused, ProtocolViolation) as error:
                self.fail(error)


def answer_to(error: Exception) -> CommandAnswer:
    """Return the answer that an error means, with its exit code."""
    if isinstance(error, ProtocolViolation):
        return CommandAnswer((), error.reply_text, UNAVAILABLE)
    code = error.exit_code if isinstance(error, CommandRefused) else DATA
    return CommandAnswer((), readable(str(error)), code)


def start(
    node: Node,
    actions: Mapping[str, Action],
    command: str,
    arguments: Mapping[str, Any],
    reply: Reply,
) -> Task:
    """Begin `command`; `reply` is called with the answer, unless the task is abandoned before."""

    def look(task: Task, _: Given) -> None:
        found: list[Row] = []
        task.look(pieces(node, command, arguments, found), found)

    task = Task(node, reply)
    if not node.is_open and command not in BEFORE_MEMBERSHIP:
        task.answer(NO_MEMBER_YET)
        return task
    task.post(Begin(actions.get(command, look), Given(arguments)))
    return task
