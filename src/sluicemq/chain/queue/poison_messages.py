"""The messages that have caused a queue's fault: those that cannot be handled, each tried alone.

The queue knows what it was handling at the fault: an effect that was being made real, or letters
that were being published. Each of these messages is handled once more by itself, by a function
without side effects. Messages for which that fails are the cause; unless it fails for a plain
message as well, or for many: then the messages are not to blame. At a fault elsewhere, in the
machine or at a message of the inbox, no message is suspected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from sluicemq.amqp.frames import content_frames
from sluicemq.chain.queue.delivery_counts import counted
from sluicemq.limits import SUSPECTS_MAX
from sluicemq.model.batch import ENVELOPED
from sluicemq.model.traits import message_traits
from sluicemq.queues.effects import Comebacks, DeadLetter, Deliver, Got
from sluicemq.storage.quarantine import NO_ENVELOPE, Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.model.traits import MessageTraits
    from sluicemq.queues.classic.unacked_runs import UnackedRun

T = TypeVar("T")

Place = tuple[int, int]
"""The place of a queue's message: its run, and its index in that."""
Parts = Sequence[tuple[int, int, int]]
"""As in Settle: run, start, end."""

PLAIN: Final = content_frames(0, b"\0\0", b"", 0)
"""A content that can always be handled: no properties, no body."""


def unmanageable(handle: Callable[[T], object], items: Sequence[T], plain: T) -> list[int]:
    """Return the places of items that cannot be handled; none if a plain one cannot be either, or
    if they are more than SUSPECTS_MAX."""
    if fails(handle, plain):
        return []
    found = [place for place, item in enumerate(items) if fails(handle, item)]
    return found if len(found) <= SUSPECTS_MAX else []


def fails(handle: Callable[[T], object], item: T) -> bool:
    """Tell whether handling this item raises an exception, which is not logged: the fault itself
    was."""
    try:
        handle(item)
    except Exception:
        return True
    return False


def at_hand(effect: object, letters: Callable[[DeadLetter], object]) -> list[Place | Wanted]:
    """Return the suspects among the messages of the effect that was being made real; None: there
    was none. `letters` makes the republished form of dead letters."""
    if isinstance(effect, DeadLetter):
        return [*died(effect, letters)]
    if isinstance(effect, Deliver) and effect.returned is not None:
        return came_back(effect.run, effect.contents, effect.traits.envelope, effect.returned)
    if isinstance(effect, Got) and effect.returned is not None and effect.content is not None:
        return came_back(effect.run, [effect.content], effect.traits.envelope, effect.returned)
    return []


def died(effect: DeadLetter, letters: Callable[[DeadLetter], object]) -> list[Place]:
    """Return the places of dead letters that `letters` fails to make."""
    traits = effect.traits
    plain = (message_traits(NO_ENVELOPE, traits.channel_number, traits.persistent), PLAIN)
    if traits.envelope == ENVELOPED:
        plain = (traits, NO_ENVELOPE + PLAIN)

    def letter(item: tuple[MessageTraits, bytes]) -> object:
        return letters(DeadLetter(0, 0, [item[1]], item[0], effect.reason))

    items = [(traits, content) for content in effect.contents]
    places = [(effect.run, effect.start + place) for place in range(len(items))]
    return [places[each] for each in unmanageable(letter, items, plain)]


def came_back(
    run: int, contents: list[bytes], envelope: bytes, returned: Comebacks
) -> list[Place | Wanted]:
    """Return the messages to which the header with their count of returns cannot be added. Messages
    without acknowledgement are in no run: the queue has let go of them, but the journal has not
    heard it, so they are there again when it is read."""

    def marked(content: bytes) -> object:
        return counted([content], envelope, [1])

    plain = NO_ENVELOPE + PLAIN if envelope == ENVELOPED else PLAIN
    found = unmanageable(marked, contents, plain)
    if run:
        return [(run, place) for place in found]
    if not returned.persistent:
        return []
    return [Wanted(returned.positions[place], contents[place]) for place in found]


def places_in(parts: Parts) -> list[Place]:
    """Return the place of each message of these parts of unacknowledged runs."""
    return [(run, place) for run, start, end in parts for place in range(start, end)]


def suspects(
    found: Iterable[Place | Wanted], unacked_runs: Mapping[int, UnackedRun]
) -> list[Wanted]:
    """Return those of these messages that a restart of a durable queue would recover, each once;
    their places are in `unacked_runs`."""
    look = partial(wanted, unacked_runs)
    lasting = map(look, dict.fromkeys(found))
    return [each for each in lasting if each is not None]


def wanted(unacked_runs: Mapping[int, UnackedRun], place: Place | Wanted) -> Wanted | None:
    """Return a message to be set aside; None: it is not persistent, or not known."""
    if isinstance(place, Wanted):
        return place
    number, index = place
    run = unacked_runs.get(number)
    if run is None or not run.chunk.traits.persistent:
        return None
    content = run.contents[index]
    return None if content is None else Wanted(run.positions[index], content)
