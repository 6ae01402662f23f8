"""The interface of the state that one member has of a queue: commands in, effects out.

What is agreed on comes as a command (`commands.py`, `replication/`). What only this member knows
comes as a call: that its consumers have room, what its clock shows, what its disk has done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic
from weakref import ref

from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.machine import StateMachine
from sluicemq.queues.commands import Command, LinkId
from sluicemq.queues.consumer_table import T_co
from sluicemq.queues.consumers import ConsumerGroups
from sluicemq.queues.effects import Effect

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor


class Depth:
    """Holds counts (messages) and sizes (bytes) of a queue, for people and alarms.

    `footprint` is what its messages take of RAM; `ram_messages` are the ready ones whose bodies are
    there, `ram_unacked` those at consumers.
    """

    __slots__ = (
        "consumers",
        "footprint",
        "persistent",
        "ram_messages",
        "ram_unacked",
        "ready",
        "ready_bytes",
        "unacked",
        "unacked_bytes",
    )

    def __init__(self) -> None:
        self.ready = 0
        self.unacked = 0
        self.ready_bytes = 0
        self.unacked_bytes = 0
        self.persistent = 0
        self.consumers = 0
        self.footprint = 0
        self.ram_messages = 0
        self.ram_unacked = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueView(Generic[T_co]):
    """This is what one member of a queue knows of it, whatever its type: how deep it is, who
    consumes (a table of type T_co), and over which links it delivers in which life."""

    depth: Depth
    consumers: T_co
    deleted: bool
    term: int
    links: dict[Actor, LinkId]
    own_link: LinkId

    def begin_term(self, term: int) -> None:
        """Begin a life of the queue, the `term`th: nothing is out over any link of it yet."""
        self.term = term
        self.own_link = LinkId(term, 0)
        self.links = {}
        self._next_link = 1

    def link_to(self, channel: Actor) -> LinkId:
        """Return the link over which this channel gets messages until it goes down, made when it is
        first asked for."""
        link = self.links.get(channel)
        if link is None:
            link = self.links[channel] = LinkId(self.term, self._next_link)
            self._next_link += 1
        return link

    def belong_to(self, queue: Actor) -> None:
        """Say which queue actor this is the state of; it is held weakly."""
        self._queue = ref(queue)

    @property
    def queue(self) -> Actor:
        """Return the queue actor whose state this is. It must not be held from here: a queue that
        is gone goes at once."""
        queue = self._queue()
        assert queue is not None, "a queue's state without the queue"
        return queue


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueMachine(QueueView[ConsumerGroups], StateMachine[Command, Effect]):
    """This is the state of a queue in one member, which may look at windows and at what is in RAM.

    Who implements it promises, beside what any machine does:

    * the same commands and calls in the same order, with the same windows, give the same effects:
      it reads no clock and no chance, and time is an argument;
    * a Confirm is appended only in the command or call that made the message as safe as it will be;
      each publish with a number is answered once, by Rejected first for what was not taken, and by
      a Confirm for what is left;
    * positions never change: what comes back comes back to its own;
    * once `deleted` it takes publishes and drops them, confirms them, and answers everything else
      with Refuse, or with nothing where nobody waits.

    No command may be lost, doubled or overtaken on its way here; it may come late.
    """

    def serve(self, effects: list[Effect]) -> None:
        """Deal ready messages to consumers that have room, as far as their windows and RAM allow:
        what is dealt out is no more than a turn may take."""
        raise NotImplementedError
