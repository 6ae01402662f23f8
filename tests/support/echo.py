"""A replicated state for tests of whoever agrees on commands: it says what it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from sluicemq.kernel.machine import Replicated


class Say:
    """Say `text`, and remember that it was said."""

    def __init__(self, text: str) -> None:
        self.text = text


class Recite(Say):
    """Say `text` with each number below `count`: that takes long."""

    def __init__(self, text: str, count: int) -> None:
        super().__init__(text)
        self.count = count


class Keep(Say):
    """Say `text`. The entry has `count` messages, which are needed until they are let go."""

    def __init__(self, text: str, count: int) -> None:
        super().__init__(text)
        self.count = count


class LetGo:
    """The message at `place` of the entry at `index` is not needed any more."""

    def __init__(self, index: int, place: int) -> None:
        self.index = index
        self.place = place


EchoCommand: TypeAlias = Say | LetGo


class Echo(Replicated[EchoCommand, str]):
    """What was said, and which messages of which entries are kept."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.kept: dict[int, set[int]] = {}
        self.is_at_work = False

    def apply(self, command: EchoCommand, effects: list[str]) -> None:
        assert not self.is_at_work, "a command is applied within another one"
        assert self.rest is None, "a command is applied before the one before it is done"
        self.is_at_work = True
        if isinstance(command, LetGo):
            self.let_go(command)
        elif isinstance(command, Recite):
            self.rest = self.recite(command, effects)
        else:
            self.say(command.text, effects)
            if isinstance(command, Keep) and command.count:
                self.kept[self.index] = set(range(command.count))
        self.is_at_work = False

    def say(self, text: str, effects: list[str]) -> None:
        self.said.append(text)
        effects.append(text)

    def recite(self, command: Recite, effects: list[str]) -> Iterator[int]:
        for number in range(command.count):
            self.say(f"{command.text} {number}", effects)
            yield 1

    def let_go(self, command: LetGo) -> None:
        places = self.kept.get(command.index, set())
        places.discard(command.place)
        if not places:
            self.kept.pop(command.index, None)

    # -- the whole of it

    def snapshot(self) -> Iterator[bytes]:
        kept = {str(index): sorted(places) for index, places in self.kept.items()}
        pieces = [[self.index, self.now_ms], kept, *self.said]
        return iter([json.dumps(each).encode() for each in pieces])

    def restore(self, pieces: Iterable[bytes]) -> None:
        head, kept, *said = [json.loads(each) for each in pieces]
        self.index, self.now_ms = head
        self.kept = {int(index): set(places) for index, places in kept.items()}
        self.said = said

    def live(self) -> Iterator[tuple[int, Sequence[range]]]:
        for index, places in sorted(self.kept.items()):
            yield index, [range(place, place + 1) for place in sorted(places)]
