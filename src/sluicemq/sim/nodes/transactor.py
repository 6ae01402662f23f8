"""Clients that publish in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.amqp import methods as m
from sluicemq.sim.nodes.book import CONFIRMED, ROLLED_BACK
from sluicemq.sim.nodes.clients import GONE, SiteRole, publish
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.book import SentToCluster
    from sluicemq.sim.nodes.site_port import SitePort


class SiteTransactor(SiteRole):
    """Publishes some messages, and commits or rolls back. Messages that were not committed must
    never be seen."""

    refusal_breaks = True

    def __init__(self, site: SitePort, name: str, total: int) -> None:
        super().__init__(site)
        random = site.random
        self.name = name
        self.total = total
        self.pause_ns = random.choice((10 * MS, 50 * MS, 150 * MS))
        self.stream = site.book.stream(name, site.number, confirms=False)
        self.pending: list[SentToCluster] = []
        """The messages of the open transaction."""
        self.ending: type[Method] | None = None
        """The awaited answer; None without one."""

    def opened(self) -> None:
        self.ending = m.TxSelectOk
        self.send(m.TxSelect())

    def act(self) -> None:
        """Publish, or end the transaction; close after the last."""
        if self.ending is not None:
            return
        random = self.site.random
        is_over = len(self.stream.sent) >= self.total or self.site.is_healing
        if self.pending and (is_over or len(self.pending) >= 5 or not random.randrange(3)):
            commits = random.randrange(4) > 0
            self.ending = m.TxCommitOk if commits else m.TxRollbackOk
            self.send(m.TxCommit() if commits else m.TxRollback())
        elif is_over:
            self.close()
        else:
            publish(self, self.stream, self.site.any_queue())
            self.pending.append(self.stream.sent[-1])
            self.wake()

    def on_method(self, method: Method) -> None:
        promise(type(method) is self.ending, self.name, "gets", method)
        if self.ending is not m.TxSelectOk:
            state = CONFIRMED if self.ending is m.TxCommitOk else ROLLED_BACK
            for each in self.pending:
                self.site.book.answered(each, state)
            self.pending.clear()
        self.ending = None
        self.wake()

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, self.name, "gets", method)

    def is_refused(self, close: m.ChannelClose) -> bool:
        is_partial = self.ending is m.TxCommitOk and "partial tx completion" in close.reply_text
        return is_partial or any(each in close.reply_text for each in (*GONE, "storage"))

    def ended(self, how: str) -> None:
        self.stream.ended = how
        if self.ending is not m.TxCommitOk:
            for each in self.pending:
                each.state = ROLLED_BACK

    def successor(self) -> SiteRole | None:
        left = self.total - len(self.stream.sent)
        if self.site.is_healing or left <= 0:
            return None
        return SiteTransactor(self.site, self.name, left)
