"""Clients that declare, delete and look up exchanges of a few names, concurrently at all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp import methods as m
from sluicemq.sim.nodes.clients import SiteRole, is_unagreed
from sluicemq.sim.nodes.registers import (
    DECLARE,
    DELETE,
    DONE,
    LOOK,
    MISSING,
    OTHER,
    RegisterMove,
)
from sluicemq.sim.records import promise
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.amqp.method import Method
    from sluicemq.sim.nodes.site_port import SitePort

NAMES: Final = ("x0", "x1")
TYPES: Final = ("direct", "fanout", "topic")
MOVES: Final = (DECLARE, DECLARE, DELETE, LOOK)


class SiteDefiner(SiteRole):
    """Makes one move at a time on a channel; a refused move ends the channel. The last moves of a
    run look up every name, once all is healed."""

    refusal_breaks = True

    def __init__(self, site: SitePort, total: int) -> None:
        super().__init__(site)
        self.total = total
        self.pause_ns = site.random.choice((20 * MS, 100 * MS, 400 * MS))
        self.name = ""
        self.move: RegisterMove | None = None
        """The move under way; None without one."""
        self.looks_for = [*NAMES]

    def opened(self) -> None:
        self.wake()

    def act(self) -> None:
        """Make the next move, or close after the last."""
        if self.move is not None:
            return
        random = self.site.random
        if self.site.is_healing:
            if not self.looks_for:
                self.close()
            else:
                self.ask(LOOK, self.looks_for.pop(), "")
        elif self.total:
            self.total -= 1
            self.ask(random.choice(MOVES), random.choice(NAMES), random.choice(TYPES))

    def ask(self, what: str, name: str, value: str) -> None:
        """Begin a move, whose answer will be noted."""
        site = self.site
        now = float(site.timeline.now_ns)
        registers = site.registers
        is_exact = site.is_healing or registers.is_calm
        life = registers.lives[site.number]
        self.name = name
        self.move = RegisterMove(site.number, life, what, value, now, is_exact)
        method: Method = m.ExchangeDelete(exchange=name)
        if what != DELETE:
            kind = value or TYPES[0]
            method = m.ExchangeDeclare(
                exchange=name, exchange_type=kind, passive=what == LOOK, durable=True
            )
        self.send(method)

    def over_with(self, answer: str) -> None:
        """Note the outcome of the move under way."""
        assert self.move is not None
        now = float(self.site.timeline.now_ns)
        done = self.move._replace(answer=answer)
        self.site.registers.done(self.name, done._replace(ended=now) if answer else done)
        self.move = None

    def on_method(self, method: Method) -> None:
        well = isinstance(method, m.ExchangeDeclareOk | m.ExchangeDeleteOk)
        promise(well and self.move is not None, self.peer.name, "gets", method)
        self.over_with(DONE)
        self.wake()

    def is_refused(self, close: m.ChannelClose) -> bool:
        if self.move is None:
            return False
        text, what = close.reply_text, self.move.what
        if what == DECLARE and close.reply_code == 406 and "inequivalent arg" in text:
            self.over_with(OTHER)
        elif what == LOOK and close.reply_code == 404:
            self.over_with(MISSING)
        else:
            promise(is_unagreed(text) or "storage" in text, what, self.name, text)
            self.over_with("")
        return True

    def on_content(self, method: Method, properties: bytes, body: bytes) -> None:
        promise(False, self.peer.name, "gets", method)

    def ended(self, how: str) -> None:
        if self.move is not None:
            self.over_with("")

    def is_done(self) -> bool:
        return self.over

    def successor(self) -> SiteRole | None:
        if self.site.is_leaving or (self.site.is_healing and not self.looks_for):
            return None
        successor = SiteDefiner(self.site, self.total)
        successor.looks_for = self.looks_for
        return successor
