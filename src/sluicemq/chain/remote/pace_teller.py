"""PACER ---lag began, lag ended---> TELLER ---section---> pacers of the nodes that publish here

While the queues of this node lag, the nodes whose channels publish to them have to hold their
publishers, too: what these send waits here otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.pacer import LagChanged
from sluicemq.chain.remote import sections as s
from sluicemq.cluster.cluster_port import QUEUE_ANSWERS
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.chain.pacer import Pacer
    from sluicemq.chain.remote.queue_mail import QueueMail
    from sluicemq.chain.remote.remote_channel import RemoteChannel
    from sluicemq.chain.services import Services

FIRST_MS: Final = 10
"""Other nodes are told of a lag that has lasted so long: a frame for each short one would cost more
than it brings."""

AGAIN_MS: Final = 100
"""The time after which they are told again, as long as the lag lasts: several times within
OTHERS_NS of the pacer."""


class LagTellDue:
    """A timer's message that it is time to tell of the lag with this number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class PaceTeller(Actor):
    """Tells the nodes of `channels`, which are the stand-ins of their channels, by the mail to
    them, that the queues here lag."""

    def __init__(
        self,
        services: Services,
        pacer: Pacer,
        mail: Mapping[int, QueueMail],
        channels: Mapping[int, Mapping[int, RemoteChannel]],
    ) -> None:
        super().__init__(services.scheduler)
        self.clock = services.world.clock
        self.pacer = pacer
        self.mail = mail
        self.channels = channels
        self.lags = 0
        """The number of lags so far."""
        self.told: dict[int, None] = {}
        """The nodes that were told of the present one."""
        pacer.followers.append(self)

    def receive(self, message: object) -> None:
        if isinstance(message, LagChanged):
            if self.pacer.lags:
                self.lags += 1
                self.clock.call_after(FIRST_MS, self, LagTellDue(self.lags))
            else:
                told, self.told = self.told, {}
                for node in told:
                    self.tell(node, 0)
        else:
            assert isinstance(message, LagTellDue), f"the teller of lags got {message!r}"
            if self.pacer.lags and message.number == self.lags:
                self.tell_all()
                self.clock.call_after(AGAIN_MS, self, message)

    def tell_all(self) -> None:
        """Tell all nodes whose channels publish here."""
        for node, channels in self.channels.items():
            if any(each.link is not None for each in channels.values()):
                self.told[node] = None
                self.tell(node, s.LAGS)

    def tell(self, node: int, flags: int) -> None:
        """Tell a node, if it is up, that the queues here lag, or with no flags that they do so no
        more."""
        mail = self.mail[node]
        mail.put(mail.reach, QUEUE_ANSWERS, s.section(s.LAG, 0, [], flags))
