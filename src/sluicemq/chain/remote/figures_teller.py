"""How many messages and consumers the queues of this node have, told to the other nodes, so that
users may ask any node. Each second the figures that have changed; everything to a node that has
come up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.remote import sections as s
from sluicemq.cluster.cluster_port import QUEUE_ANSWERS
from sluicemq.kernel.actor import Actor
from sluicemq.limits import QUEUE_FIGURES_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.remote.queue_mail import QueueMail
    from sluicemq.chain.services import Services

QUEUES_A_PIECE: Final = 100
WORK_A_QUEUE: Final = 2
NOTHING: Final = s.QueueFigures()


class FiguresDue:
    """A timer's message that it is time to check the queues of this node."""

    __slots__ = ()


class FiguresTeller(Actor):
    """Puts figures of the queues in `vhosts` into the mail to each other node."""

    def __init__(
        self,
        services: Services,
        mail: Mapping[int, QueueMail],
        vhosts: Mapping[str, NamespacePort],
    ) -> None:
        super().__init__(services.scheduler)
        self.clock = services.world.clock
        self.mail = mail
        self.vhosts = vhosts
        self.told: dict[int, tuple[int, dict[int, s.QueueFigures]]] = {}
        """By node: the link over which it was told, and what it knows of each queue by its id."""
        self.clock.call_after(QUEUE_FIGURES_MS, self, FiguresDue())

    def receive(self, message: object) -> None:
        assert isinstance(message, FiguresDue), f"the teller of figures got {message!r}"
        self.clock.call_after(QUEUE_FIGURES_MS, self, message)
        self.begin(self.tell_all())

    def tell_all(self) -> Iterator[int]:
        """Tell all figures to all nodes that are up, in pieces, each of which yields its work."""
        there: dict[int, None] = {}
        for vhost in [*self.vhosts.values()]:
            queues = [each for each in vhost.queues.values() if each.is_local]
            for at in range(0, len(queues), QUEUES_A_PIECE):
                some = queues[at : at + QUEUES_A_PIECE]
                self.tell([figures_of(each) for each in some])
                there.update(dict.fromkeys(each.id for each in some))
                yield WORK_A_QUEUE * len(some)
        for _, known in self.told.values():
            for queue_id in known.keys() - there.keys():
                del known[queue_id]

    def tell(self, figures: list[s.QueueFigures]) -> None:
        """Tell each node that is up those of these figures that it does not know."""
        for node, mail in self.mail.items():
            reach, known = self.told.get(node, (0, {}))
            if reach != mail.reach:
                known = {}
                self.told[node] = mail.reach, known
            new = [each for each in figures if known.get(each.queue_id, NOTHING)[1:] != each[1:]]
            if new and mail.reach:
                known.update((each.queue_id, each) for each in new)
                rows = [s.FIGURES_ROW.pack(*each) for each in new]
                mail.put(mail.reach, QUEUE_ANSWERS, s.section(s.FIGURES, 0, rows))


def figures_of(queue: Queue) -> s.QueueFigures:
    """Return the figures of a queue of this node."""
    depth = queue.machine.depth
    return s.QueueFigures(
        queue.id,
        depth.ready,
        depth.unacked,
        depth.persistent,
        depth.ready_bytes,
        depth.unacked_bytes,
        depth.consumers,
    )
