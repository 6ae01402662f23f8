"""A classic queue as its limits (`limits.py`) see it: the head of what is ready, and its lots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.queues.machine import QueueMachine

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.backing import Backing
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.delivery_counts import DeliveryCounts
    from sluicemq.queues.classic.lots import Lot
    from sluicemq.queues.classic.memory_target import Rates
    from sluicemq.queues.commands import LinkId, Publish
    from sluicemq.queues.effects import Effect


class Head(QueueMachine):
    """What limits may do to a classic queue. `ram_acks` counts the messages in lots whose bodies
    could leave RAM for the message store, `work` the units of work that commands have cost since
    the shell has looked; `lots_of` has the lots by the link that they are out over."""

    durable: bool
    backing: Backing
    rates: Rates
    lots: dict[int, Lot]
    lots_of: dict[LinkId, dict[int, Lot]]
    next_lot: int
    ram_acks: int
    work: int
    delivery_counts: DeliveryCounts | None

    # -- what comes in and goes out

    def take(self, command: Publish, effects: list[Effect]) -> None:
        """Store what fits of the batch, and answer for all of it."""
        raise NotImplementedError

    def refuse(self, batch: Batch, effects: list[Effect]) -> None:
        """Do with these messages what the limits say of those that do not fit. Their publisher is
        answered elsewhere."""
        raise NotImplementedError

    def store(self, batch: Batch, expiry: int) -> int:
        """Make these messages ready at the tail; returns the position of the first one. `expiry` is
        in milliseconds since the epoch, 0: they never expire."""
        raise NotImplementedError

    def promise(self, batch: Batch, command: Publish, position: int, effects: list[Effect]) -> None:
        """Say of what was stored from `position` on that it is, or will be, as safe as it can
        be."""
        raise NotImplementedError

    def next_chunk(self) -> Chunk | None:
        """The messages at the head that are in RAM; None when there are none."""
        raise NotImplementedError

    def release_chunk(
        self, chunk: Chunk, contents: list[bytes], positions: range, effects: list[Effect]
    ) -> None:
        """Let messages go for good that have not been out at a consumer."""
        raise NotImplementedError

    def acknowledge(self, lot: Lot, start: int, end: int, effects: list[Effect]) -> None:
        """Let the messages [start, end) of a lot go for good."""
        raise NotImplementedError

    # -- lots

    def open_lot(self, lot: Lot, size: int) -> int:
        """Remember a delivery; returns its number."""
        number = self.next_lot
        self.next_lot += 1
        self.keep_lot(number, lot)
        depth = self.depth
        depth.unacked += lot.left
        depth.unacked_bytes += size
        depth.ram_unacked += lot.left
        if lot.chunk.id_base is not None:
            self.ram_acks += lot.left
        self.rates.ack_in += lot.left
        return number

    def keep_lot(self, number: int, lot: Lot) -> None:
        """It is out."""
        assert lot.link.term == self.term, "a lot over a link of another life"
        self.lots[number] = lot
        same = self.lots_of.get(lot.link)
        if same is None:
            self.lots_of[lot.link] = {number: lot}
        else:
            same[number] = lot

    def forget_lot(self, number: int) -> Lot:
        """Nothing of it is out any more."""
        lot = self.lots.pop(number)
        same = self.lots_of[lot.link]
        del same[number]
        if not same:
            del self.lots_of[lot.link]
        return lot
