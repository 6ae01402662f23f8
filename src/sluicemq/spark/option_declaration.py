"""The declaration of an option, and the parsing of its text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sluicemq.client.address import without_password

Side = Literal["both", "source", "sink"]

FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"

ACK_DEFAULT: Final = "default"
ACK_CHECKPOINT: Final = "checkpoint"
ACK_ON_READ: Final = "onRead"

FAIL: Final = "fail"
DEAD_LETTER: Final = "deadLetter"


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionDeclaration:
    """The declaration of an option, without its default. Numbers lie between `low` and `high`,
    inclusive."""

    name: str
    kind: Literal["text", "secret", "list", "count", "switch", "choice", "offset"]
    side: Side
    help: str
    low: int = 0
    high: int = 2**63 - 1
    choices: tuple[str, ...] = ()
    default_words: str = ""
    gone: str = ""
    """A choice that earlier versions had; empty: there is none."""
    why_gone: str = ""

    def allowed(self) -> str:
        """Return the allowed values in words, for the end of an error message."""
        if self.kind == "count":
            above = f" to {self.high}" if self.high < 2**63 - 1 else " up"
            return f"a whole number from {self.low}{above}"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        return {
            "switch": "true or false",
            "list": "names separated by commas",
            "offset": "first, last, next, an offset (a whole number), or a time such as"
            " 2026-01-31T12:00:00+00:00",
        }.get(self.kind, "a text that is not empty")

    def parse(self, text: str) -> Any:
        """Return the value of a user's text. Raises ValueError or KeyError when it has none."""
        if self.kind == "count":
            number = int(text)
            if not self.low <= number <= self.high:
                raise ValueError
            return number
        if self.kind == "switch":
            return {"true": True, "false": False}[text.strip().lower()]
        if self.kind == "choice":
            return {choice.lower(): choice for choice in self.choices}[text.strip().lower()]
        if self.kind == "offset":
            return parse_offset(text)
        if not text:
            raise ValueError
        if self.kind == "list":
            names = tuple(name.strip() for name in text.split(","))
            if not all(names):
                raise ValueError
            return names
        return text


def shown(declared: OptionDeclaration, text: str) -> str:
    """Return a user's text for an error, quoted and without a password."""
    if declared.kind == "secret":
        return "'...'"
    return repr(without_password(text))


def parse_offset(text: str) -> str | int | datetime:
    """Return the offset of a text: `first`, `last` or `next`, a whole number, or a time (in UTC
    when it names no zone). Raises ValueError for anything else."""
    word = text.strip().lower()
    if word in (FIRST, LAST, NEXT):
        return word
    if word.isdigit():
        return int(word)
    found = datetime.fromisoformat(text.strip())
    return found if found.tzinfo else datetime.fromisoformat(text.strip() + "+00:00")
