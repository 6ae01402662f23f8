"""Text that comes from outside: any octets, whatever AMQP says about UTF-8.

The broker keeps such text as `str`, in which surrogate escapes stand for octets that are not UTF-8,
so it is compared, stored and sent on unchanged. Code that needs the octets (a digest, a pattern, a
file) calls `octets`; code that shows the text, or writes it where only valid text is allowed (the
log, a reply's text, a command's answer), calls `readable`. `str.encode` alone is for texts of the
broker's own. JSON texts may hold surrogates that stand for no octet; they are refused where they
come in (`is_text`).
"""

from __future__ import annotations

from typing import Final

CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
"""What steers a terminal, by its code, and how it is shown instead."""


def octets(text: str) -> bytes:
    """Return the octets that `text` stands for. Raises UnicodeEncodeError when it stands for none,
    see `is_text`."""
    return text.encode("utf-8", "surrogateescape")


def text_of(raw: bytes) -> str:
    """Return octets as text that `octets` turns into the same octets again."""
    return raw.decode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """Return `text` with each octet that is not UTF-8 written as `\\xff`. Valid text, with its
    control characters, is returned unchanged."""
    if text.isascii():
        return text
    raw = octets(text) if is_text(text) else text.encode("utf-8", "backslashreplace")
    return raw.decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Return `text` as one line of ASCII that cannot steer a terminal: everything else
    is escaped."""
    line = readable(text).translate(CONTROLS)
    return line.encode("ascii", "backslashreplace").decode()


def cut(text: str, octets_max: int) -> str:
    """Return the beginning of `text` that takes at most that many octets; no character is cut in
    two."""
    raw = octets(text)[:octets_max]
    return raw.decode(errors="ignore") if is_utf8(text) else text_of(raw)


def is_utf8(text: str) -> bool:
    """Tell whether `text` stands for octets that are UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_text(text: str) -> bool:
    """Tell whether `text` stands for octets, so that it may come in. It does not if it has a lone
    surrogate, which JSON can write and UTF-8 cannot."""
    try:
        octets(text)
    except UnicodeEncodeError:
        return False
    return True
