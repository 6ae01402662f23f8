"""Goal: a queue pages as the transcripts in tests/scripts/paging say.

They show where messages are, oldest on the right, and which moves brought them there; the moves and
their reasons are those of the table in `queues/classic/subqueues.py`. Messages are called 1, 2, 3
... as they are published, 10 bytes each, or 40 with `large`, whose bodies are in the message store.
Everything is tiny: 8 messages a segment of the index, 100 bytes a write or a load of the disk.
Commands:

    queue [transient] [lazy]
    publish N [large] [transient]
    keep N | keep all           so many messages may have their bodies in RAM
    store full | store free     whether the message store takes anything now
    lazy on | lazy off          the queue's mode changes
    consume [prefetch=N]        one consumer; `cancel` ends it, `down` its channel
    ack N | requeue N           of what is out, the first N
    disk [N]                    the disk does the first (N) of its jobs
    bodies                      the message store answers the oldest question
    rest                        everybody works until nothing is left to do
    restart                     the node stops in order and starts again
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicemq.queues.classic.subqueues import MOVES
from support.transcripts import check, spans

from .paging_invariants import check as check_invariants
from .paging_model import WINDOW, Bench, tiny

SCRIPTS = Path(__file__).parents[2] / "scripts" / "paging"
SMALL, LARGE = 0, 3
"""Kinds of messages, as the model has them."""


@pytest.fixture(autouse=True)
def _tiny() -> Iterator[None]:
    with tiny():
        yield


class Interpreter:
    """Runs one transcript on one queue."""

    def __init__(self) -> None:
        self.bench = Bench()

    def execute(self, line: str) -> str:
        words = line.split()
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        self.bench.moves.clear()
        out_before = self.out()
        getattr(self, f"do_{words[0]}")(plain, options)
        check_invariants(self.bench)
        return "\n".join([*self.moves(), *self.delivered(out_before), *self.state()])

    # What is shown

    def number(self, position: int) -> int:
        """The name of a message, by its position."""
        held = self.bench.out.get(position)
        messages = self.bench.ready if held is None else [held.message]
        found = next(message for message in messages if message.position == position)
        return int(found.content[:7])

    def out(self) -> set[int]:
        return {self.number(position) for position in self.bench.out}

    def moves(self) -> list[str]:
        """In the order of the table."""
        made = self.bench.moves
        return [f"{a} -> {b}: {why}" for (a, b), why in MOVES.items() if (a, b) in made]

    def delivered(self, before: set[int]) -> list[str]:
        new = sorted(self.out() - before)
        return [f"delivered {spans(new)}"] if new else []

    def state(self) -> list[str]:
        """Which messages are where, and what has still to be done by the disk and the store."""
        bench = self.bench
        places = bench.backing.places()
        in_ram = {position for positions in places.values() for position in positions}
        places["delta"] = [m.position for m in bench.ready if m.position not in in_ram]
        shown = []
        for name in ("q1", "q2", "delta", "q3", "q4"):
            numbers = sorted(map(self.number, places[name]))
            shown.append(f"{name} {f'[{spans(numbers)}]' if numbers else '-'}")
        if bench.out:
            shown.append(f"out [{spans(sorted(self.out()))}]")
        lines = ["   ".join(shown)]
        waiting = [f"{len(bench.strand)} for the disk"] if bench.strand else []
        waiting += [f"{len(bench.reads)} for the message store"] if bench.reads else []
        depth = bench.machine.depth
        line = f"bodies in RAM: {depth.ram_messages} ready, {depth.ram_unacked} out"
        return [*lines, line + (f"; waiting: {', '.join(waiting)}" if waiting else "")]

    # The commands

    def do_queue(self, plain: list[str], _: dict[str, str]) -> None:
        self.bench = Bench("transient" not in plain, "lazy" in plain)

    def do_publish(self, plain: list[str], _: dict[str, str]) -> None:
        kind = LARGE if "large" in plain else SMALL
        self.bench.publish(int(plain[0]), kind, "transient" not in plain)

    def do_keep(self, plain: list[str], _: dict[str, str]) -> None:
        self.bench.set_target(None if plain[0] == "all" else int(plain[0]))

    def do_store(self, plain: list[str], _: dict[str, str]) -> None:
        self.bench.give_credit({"full": 0, "free": WINDOW}[plain[0]])

    def do_lazy(self, plain: list[str], _: dict[str, str]) -> None:
        self.bench.set_lazy({"on": True, "off": False}[plain[0]])

    def do_consume(self, _: list[str], options: dict[str, str]) -> None:
        self.bench.consume(0, False, int(options.get("prefetch", 0)))

    def do_cancel(self, _: list[str], __: dict[str, str]) -> None:
        self.bench.cancel(0)

    def do_down(self, _: list[str], __: dict[str, str]) -> None:
        self.bench.down(0)

    def do_ack(self, plain: list[str], _: dict[str, str]) -> None:
        self.bench.settle(0, int(plain[0]), False)

    def do_requeue(self, plain: list[str], _: dict[str, str]) -> None:
        self.bench.settle(0, int(plain[0]), True)

    def do_disk(self, plain: list[str], _: dict[str, str]) -> None:
        for _times in range(int(plain[0]) if plain else 1):
            assert self.bench.strand, "the disk has nothing to do"
            self.bench.work()

    def do_bodies(self, _: list[str], __: dict[str, str]) -> None:
        assert self.bench.reads, "the message store was not asked"
        self.bench.read_bodies()

    def do_rest(self, _: list[str], __: dict[str, str]) -> None:
        self.bench.work_to_the_end()

    def do_restart(self, _: list[str], __: dict[str, str]) -> None:
        self.bench.restart()


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
