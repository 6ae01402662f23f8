"""Between a queue actor and its machine: sees each command that is applied, and each call, with the
effects that answer it. What the machine calls of itself meanwhile is a part of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.queues.commands import Publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluicemq.queues.classic.machine import ClassicQueue
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
        self.stand_before(machine)

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

    def stand_before(self, machine: ClassicQueue) -> None:
        """Replace the machine's methods by ones that this tap sees."""
        apply, serve, enforce, written = (
            machine.apply,
            machine.serve,
            machine.enforce,
            machine.written,
        )

        def applying(command: Command, effects: list[Effect]) -> None:
            self.applied(command, effects, self.seen(effects, lambda: apply(command, effects)))

        def serving(effects: list[Effect]) -> None:
            self.called(SERVE, effects, lambda: serve(effects))

        def enforcing(now_ms: int, effects: list[Effect]) -> None:
            self.called(ENFORCE, effects, lambda: enforce(now_ms, effects))

        def writing(receipts: Sequence[Receipt], effects: list[Effect]) -> None:
            self.written(receipts, self.seen(effects, lambda: written(receipts, effects)))

        machine.apply = applying  # type: ignore[method-assign]
        machine.serve = serving  # type: ignore[method-assign]
        machine.enforce = enforcing  # type: ignore[method-assign]
        machine.written = writing  # type: ignore[method-assign]

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
