"""Data-driven transcripts: a text file of commands, each with the output it must have.

    # a comment, kept as it is
    publish 200
    ----
    reader stopped

A command is one line, then `----`, then its output up to the next empty line. `pytest --rewrite`
writes the outputs anew; the diff is then read as carefully as code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

RULER = "----"


def check(path: Path, execute: Callable[[str], str], rewrite: bool) -> None:
    """Run each command of the file in order; compare, or write, what comes out."""
    was = path.read_text()
    now = replay(was, execute)
    if rewrite:
        path.write_text(now)
    else:
        assert now.splitlines() == was.splitlines(), f"{path.name}: see --rewrite"


def replay(text: str, execute: Callable[[str], str]) -> str:
    """The same transcript with the outputs that `execute` gives now."""
    blocks = [_replay_block(block, execute) for block in text.strip().split("\n\n")]
    return "\n\n".join(blocks) + "\n"


def _replay_block(block: str, execute: Callable[[str], str]) -> str:
    kept: list[str] = []
    for line in block.splitlines():
        if line == RULER:
            break
        kept.append(line)
    commands = [line for line in kept if not line.startswith("#")]
    assert len(commands) <= 1, f"one command a block, not {commands}"
    if commands:
        output = execute(commands[0]).rstrip()
        assert "\n\n" not in output, "an empty line would end the output"
        kept.append(RULER)
        kept.extend([output] if output else [])
    return "\n".join(kept)


def spans(numbers: list[int]) -> str:
    """Numbers in order, as a reader likes them: 1-3 7 9 10."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(f"{a}-{b}" if b > a + 1 else f"{a} {b}" if b > a else f"{a}" for a, b in parts)
