"""queue ---messages that have died---> republisher: the way of a queue's dead letters."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final
from weakref import ref

from sluicemq.chain.queue.death_headers import DeadLetterHeaders, Death
from sluicemq.chain.queue.republish_messages import Republish, RepublishMessage, SourceGone
from sluicemq.model.batch import ENVELOPED, exchange_and_key, separate

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.republish_messages import RepublisherPort
    from sluicemq.queues.commands import Settle
    from sluicemq.queues.effects import DeadLetter
    from sluicemq.queues.settings import QueueSettings

UNPROMISED_MAX: Final = 64
"""The most batches of dead letters without a promise that may wait before further ones are
dropped."""


class DeadLettering:
    """Passes the dead letters of one queue on to the broker's own publisher, by the `settings` at
    their death."""

    def __init__(self, queue: Queue) -> None:
        self._queue = ref(queue)
        self.clock = queue.services.world.clock
        self.republisher: RepublisherPort | None = None

    @property
    def queue(self) -> Queue:
        """Return the queue of these dead letters. This object must not keep it alive: a queue that
        ends is freed at once."""
        queue = self._queue()
        assert queue is not None, "a queue's dead letters without the queue"
        return queue

    def pass_on(
        self,
        effect: DeadLetter,
        settings: QueueSettings,
        done: Settle | None,
        at_most_once: bool = False,
    ) -> None:
        """Hand dead letters to the broker's own publisher, which posts `done` to the queue when all
        are safe. They are dropped without a dead-letter exchange, and, if `done` is None, when too
        many are in line; if `at_most_once`, also when they may or may not have arrived."""
        queue = self.queue
        count = len(effect.contents)
        exchange = settings.dead_letter_exchange
        if self.republisher is None:
            self.republisher = queue.vhost.republisher(queue, queue.title)
        held_up = self.republisher.backlog >= UNPROMISED_MAX
        if exchange is None or (done is None and held_up):
            queue.services.counters.dropped += count
            if done is not None:
                queue.post(done)
            return
        letters = self.letters(effect, settings)
        traits = effect.traits
        self.republisher.post(
            Republish(
                exchange,
                letters,
                traits.channel_number,
                traits.persistent,
                done,
                at_most_once=at_most_once,
            )
        )

    def letters(self, effect: DeadLetter, settings: QueueSettings) -> list[RepublishMessage]:
        """Return the dead messages as they go on, with their deaths in the headers."""
        pairs = [(effect.traits.envelope, content) for content in effect.contents]
        if effect.traits.envelope == ENVELOPED:
            pairs = [separate(content) for content in effect.contents]
        name = self.queue.name
        new_key = settings.dead_letter_routing_key
        seconds = self.clock.wall_ms() // 1000
        letters: list[RepublishMessage] = []
        for envelope, some in groupby(pairs, envelope_of):
            death = Death(name, effect.reason, seconds, *exchange_and_key(envelope), new_key)
            rewritten = DeadLetterHeaders(death)
            letters += [rewritten.letter(content) for _, content in some]
        return letters

    def close(self) -> None:
        """Tell the republisher that the queue is gone; what is under way arrives."""
        if self.republisher is not None:
            self.republisher.post(SourceGone())
            self.republisher = None


def envelope_of(pair: tuple[bytes, bytes]) -> bytes:
    """Return the envelope of an (envelope, content) pair, as a sort key."""
    return pair[0]
