"""Between a queue actor and its machine: sees each command that is applied, and each call, with the
effects that answer it. What the machine calls of itself meanwhile is a part of that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import Publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.commands import Command
    from sluicemq.queues.effects import Effect, Receipt

SERVE: Final = "serve"
ENFORCE: Final = "enforce"
"""The calls of a machine that deal out, or let go."""


class Tap:
    """Sees what one machine is asked from the moment it is made. Everything is handed on."""

    def __init__(self, machine: ClassicQueue) -> None:
        self.machine = machine
        self.is_inside = False
        """The machine is at something that has come from outside."""
        assert isinstance(machine, WatchedQueue), (
            "a simulated node makes queues that can be watched"
        )
        machine.tap = self

    def watch(self, command: Command | str, effects: list[Effect]) -> None:
        """Called with the effects that answered a command, or a call of that name."""
        raise NotImplementedError

    def written(self, receipts: Sequence[Receipt], effects: list[Effect]) -> None:
        """Called with the effects that answered the machine being told that these writes are
        durable."""
        raise NotImplementedError

    def published(self, command: Publish) -> None:
        """Called when a batch has come; its effects are watched later."""
        raise NotImplementedError

    def handed_to_store(self, count: int) -> None:
        """Called when the bodies of so many messages go to the message store."""
        raise NotImplementedError

    def seen(self, effects: list[Effect], call: Callable[[], None]) -> list[Effect]:
        """The effects of a call, from outside."""
        before = len(effects)
        self.is_inside = True
        try:
            call()
        finally:
            self.is_inside = False
        return effects[before:]

    def called(self, word: str, effects: list[Effect], call: Callable[[], None]) -> None:
        """A call that deals out, or lets go."""
        if self.is_inside:
            call()
        else:
            self.watch(word, self.seen(effects, call))

    def applied(self, command: Command, effects: list[Effect], seen: list[Effect]) -> None:
        """A command was carried out, or most of it."""
        if isinstance(command, Publish):
            self.published(command)
        rest = self.machine.rest
        if rest is None:
            self.watch(command, seen)
        else:
            self.machine.rest = self.watch_rest(rest, command, seen, effects)

    def watch_rest(
        self, rest: Iterator[int], command: Command, seen: list[Effect], effects: list[Effect]
    ) -> Iterator[int]:
        """The pieces of a long command; it is watched when all are done."""
        work: int | None = 0
        while work is not None:
            yield work
            before = len(effects)
            work = next(rest, None)
            seen += effects[before:]
        self.watch(command, seen)


class WatchedQueue(ClassicQueue):
    """The state of a classic queue on a simulated node: once it has a tap, this sees what is asked
    of it."""

    tap: Tap | None = None

    def apply(self, command: Command, effects: list[Effect]) -> None:
        call, tap = partial(super().apply, command, effects), self.tap
        if tap is None:
            call()
        else:
            tap.applied(command, effects, tap.seen(effects, call))

    def serve(self, effects: list[Effect]) -> None:
        call, tap = partial(super().serve, effects), self.tap
        if tap is None:
            call()
        else:
            tap.called(SERVE, effects, call)

    def enforce(self, now_ms: int, effects: list[Effect]) -> None:
        call, tap = partial(super().enforce, now_ms, effects), self.tap
        if tap is None:
            call()
        else:
            tap.called(ENFORCE, effects, call)

    def written(self, receipts: Sequence[Receipt], effects: list[Effect]) -> None:
        call, tap = partial(super().written, receipts, effects), self.tap
        if tap is None:
            call()
        else:
            tap.written(receipts, tap.seen(effects, call))

    def take_to_store(self) -> list[Chunk]:
        if self.tap is not None:
            self.tap.handed_to_store(self.to_store_count)
        return super().take_to_store()
