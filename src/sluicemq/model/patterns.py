"""Regular expressions written by users, in permissions and policies, matched in bounded time.

RabbitMQ's are PCRE, searched for in the bytes of a name; so are these, by the package `regex`,
which has PCRE's look-aheads, atomic groups and possessive quantifiers, and a timeout. A match that
takes too long counts as none. A user who may choose names can make the broker waste
PATTERN_TIMEOUT_S on each try; after PATTERN_STRIKES_MAX names the pattern is not tried any more.

The package's timeout counts the clock of the whole process: if it released the interpreter during a
match, other threads' work would count, and a sound pattern of a busy broker would seem too slow.
Importing it takes 1.5 MB and part of the start, so a broker that needs no such pattern does not
import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import Refused
from sluicemq.limits import (
    PATTERN_BYTES_MAX,
    PATTERN_EXPANDED_MAX,
    PATTERN_STRIKES_MAX,
    PATTERN_TIMEOUT_S,
    PATTERN_TRIES,
)
from sluicemq.text import octets

if TYPE_CHECKING:
    import regex

NOTHING: Final = "^$"
"""What the empty pattern of a permission means."""
NEVER: Final = "(?!)"
"""A pattern that matches nothing."""
PLAIN: Final = {".*": True, NEVER: False}
"""Patterns that most users have, and whether they are found in anything."""


class Pattern:
    """A compiled regular expression of a user. `strikes` counts the names on which it took too
    long. The constructor raises Refused when the text is not a regular expression."""

    __slots__ = ("_compiled", "_is_found", "strikes", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._is_found = PLAIN.get(text)
        self._compiled = compiled(text) if self._is_found is None else None
        self.strikes = 0

    @property
    def spent(self) -> bool:
        """Tell whether it took too long so often that it is not tried any more."""
        return self.strikes >= PATTERN_STRIKES_MAX

    def matches(self, subject: str) -> bool:
        """Tell whether the pattern is found anywhere in the subject. False, too, when that takes
        too long, or has done so often enough before."""
        if self._compiled is None:
            return self._is_found is True
        if self.spent:
            return False
        raw = octets(subject)
        for _ in range(PATTERN_TRIES):
            try:
                found = self._compiled.search(raw, timeout=PATTERN_TIMEOUT_S, concurrent=False)
            except TimeoutError:
                continue
            return found is not None
        self.strikes += 1
        return False


def compiled(text: str) -> regex.Pattern[bytes]:
    """Return the compiled expression. Raises Refused when the text is no regular expression, is too
    long, or repeats too much."""
    import regex  # noqa: PLC0415 (see above)

    raw = octets(text)
    if len(raw) > PATTERN_BYTES_MAX:
        limit = PATTERN_BYTES_MAX
        raise Refused(f"a regular expression of {len(raw)} bytes, where {limit} are allowed")
    try:
        if expanded_size(text) > PATTERN_EXPANDED_MAX:
            raise Refused(f"regular expression '{text}' repeats too much")
        return regex.compile(raw)
    except (regex.error, RecursionError, OverflowError) as error:
        raise Refused(f"regular expression '{text}' is invalid: {error}") from error


def expanded_size(text: str) -> int:
    """Return about how many characters are left when repetitions `{n}` are written out."""
    open_groups: list[int] = []
    before = last = at = 0
    while at < len(text):
        letter = text[at]
        if letter == "{":
            digits = text[at + 1 : at + 12]
            digits = digits[: len(digits) - len(digits.lstrip("0123456789"))]
            last *= max(int(digits or 1), 1)
            at += len(digits) + 1
            continue
        before += last
        last = 1
        if letter == "\\":
            at += 1
        elif letter == "[":
            at = max(text.find("]", at + 2), at)
        elif letter == "(":
            open_groups.append(before)
            before = last = 0
        elif letter == ")" and open_groups:
            last, before = before + 1, open_groups.pop()
        at += 1
    return before + last + sum(open_groups)


def check_pattern(text: str) -> None:
    """Raise Refused when the text is no regular expression, is too long, or repeats too much."""
    if text not in PLAIN:
        compiled(text)


def escaped(text: str) -> str:
    """Return a pattern that matches only this very text."""
    import regex  # noqa: PLC0415 (see above)

    return str(regex.escape(text, special_only=True))
