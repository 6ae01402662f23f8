"""Between a queue actor and its machine: sees each command that is applied, and each call, with the
resulting effects. Calls that the machine makes on itself meanwhile are part of it.
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
"""The machine's calls that deliver messages, or drop some."""


class Tap:
    """Sees every command and call of one machine from its creation on. It passes everything on."""

    def __init__(self, machine: ClassicQueue) -> None:
        self.machine = machine
        self.is_inside = False
        """The machine is handling a command or call from outside."""
        assert isinstance(machine, WatchedQueue), (
            "a simulated node makes queues that can be watched"
        )
        machine.tap = self

    def watch(self, command: Command | str, effects: list[Effect]) -> None:
        """Called with the effects of a command, or of a call of that name."""
        raise NotImplementedError

    def written(self, receipts: Sequence[Receipt], effects: list[Effect]) -> None:
        """Called with the effects of telling the machine that these writes are durable."""
        raise NotImplementedError

    def published(self, command: Publish) -> None:
        """Called when a batch arrives; its effects are watched later."""
        raise NotImplementedError

    def handed_to_store(self, count: int) -> None:
        """Called when the bodies of `count` messages go to the message store."""
        raise NotImplementedError

    def seen(self, effects: list[Effect], call: Callable[[], None]) -> list[Effect]:
        """Return the effects of a call from outside the machine."""
        before = len(effects)
        self.is_inside = True
        try:
            call()
        finally:
            self.is_inside = False
        return effects[before:]

    def called(self, word: str, effects: list[Effect], call: Callable[[], None]) -> None:
        """Watch a call that delivers messages, or drops some."""
        if self.is_inside:
            call()
        else:
            self.watch(word, self.seen(effects, call))

    def applied(self, command: Command, effects: list[Effect], seen: list[Effect]) -> None:
        """Watch a command that was carried out, at least mostly."""
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
        """Watch a long command when all its pieces are done."""
        work: int | None = 0
        while work is not None:
            yield work
            before = len(effects)
            work = next(rest, None)
            seen += effects[before:]
        self.watch(command, seen)


class WatchedQueue(ClassicQueue):
    """The state of a classic queue on a simulated node; its tap, if it has one, sees all commands
    and calls."""

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
