"""The JSON objects of a definitions document, read field by field. Errors are noted with their
place and reading goes on, so that all of them are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from sluicemq.amqp.types import Malformed, Table, decode_table, encode_table
from sluicemq.limits import JSON_DEPTH_MAX
from sluicemq.model.nesting import is_flat_enough
from sluicemq.text import is_utf8, octets

NAME_BYTES_MAX: Final = 255
"""The longest name in bytes: what a short string of AMQP holds."""
ERRORS_MAX: Final = 100
"""The most errors that are reported: somebody may have given another file."""
REQUIRED: Final = object()


class Errors(list[str]):
    """The errors found in a document, each with its place; at most ERRORS_MAX of them."""

    def note(self, place: str, text: str) -> None:
        if len(self) < ERRORS_MAX:
            self.append(f"{place}: {text}")


class Fields:
    """One object of a document, and its place there. Unknown fields are allowed."""

    def __init__(self, value: object, place: str, errors: Errors) -> None:
        self.values: Mapping[str, Any] = value if isinstance(value, dict) else {}
        name = self.values.get("name")
        self.place = f"{place} ({name!r:.80})" if isinstance(name, str) else place
        self.errors = errors
        if not isinstance(value, dict):
            errors.note(place, "must be an object")
            self.errors = Errors()  # nothing else is worth reporting

    def note(self, text: str) -> None:
        """Note an error in this object."""
        self.errors.note(self.place, text)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: object = REQUIRED) -> str:
        """Return a text; "", with a note, when it is missing without a default or is not a text."""
        value = self.values.get(key)
        if value is None and default is not REQUIRED:
            value = default
        if not isinstance(value, str):
            self.note(f"{key} is missing" if value is None else f"{key} must be a text")
            return ""
        return value

    def name(self, key: str, default: object = REQUIRED, *, filled: bool = False) -> str:
        """Return a text, with a note when AMQP cannot carry it as a name, or when it is empty and
        must be `filled`."""
        value = self.text(key, default)
        if filled and self.values.get(key) == "":
            self.note(f"{key} is empty")
        if not is_name(value):
            flaw = f"longer than {NAME_BYTES_MAX} bytes" if is_utf8(value) else "no UTF-8"
            self.note(f"{key} is {flaw}")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return true or false; False, with a note, when the field is missing without a default or
        is something else."""
        value = self.values.get(key, default)
        if type(value) is not bool:
            self.note(f"{key} is missing" if value is None else f"{key} must be true or false")
            return False
        return value

    def number(self, key: str, default: int) -> int:
        """Return a whole number; the default, with a note, when the field is something else."""
        value = self.values.get(key, default)
        if type(value) is not int:
            self.note(f"{key} must be a whole number")
            return default
        return value

    def tags(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, or the parts of one text with commas, as older files have it;
        nothing, with a note, when it is neither."""
        value = self.values.get(key, [])
        if isinstance(value, str):
            value = [each.strip() for each in value.split(",") if each.strip()]
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.note(f"{key} must be a list of texts")
            return ()
        return tuple(value)

    def object(self, key: str, default: object = REQUIRED) -> dict[str, Any]:
        """Return an object; an empty one, with a note, when it is missing without a default or is
        not an object. RabbitMQ writes some as lists of [key, value], and an empty one as []."""
        value = self.values.get(key, default)
        if isinstance(value, list) and all(map(is_pair, value)):
            return dict(value)
        if not isinstance(value, dict):
            self.note(f"{key} is missing" if value is REQUIRED else f"{key} must be an object")
            return {}
        return value

    def arguments(self) -> dict[str, Any]:
        """Return an object that AMQP can carry as a table, as it would be decoded again; an empty
        one, with a note, when it cannot."""
        value = self.object("arguments", {})
        try:
            return decode_table(encode_table(cast("Table", value)))[0]
        except (Malformed, ValueError, RecursionError, OverflowError) as error:
            self.note(f"arguments are no table of AMQP: {error}")
            return {}

    def inner(self, key: str) -> Fields:
        """Return the fields of an object within this one; of an empty one when it is missing."""
        return Fields(self.values.get(key, {}), f"{self.place}: {key}", self.errors)


def is_name(text: str) -> bool:
    """Tell whether AMQP can carry a text as a name: it is UTF-8, of at most NAME_BYTES_MAX
    bytes."""
    return is_utf8(text) and len(text.encode()) <= NAME_BYTES_MAX


def objects(document: Mapping[str, Any], section: str, errors: Errors) -> Iterator[Fields]:
    """Yield the objects of one section of a document; none when the section is missing."""
    found = document.get(section, [])
    if not isinstance(found, list):
        errors.note(section, "must be a list")
        return
    for index, each in enumerate(found):
        yield Fields(each, f"{section}[{index}]", errors)


def is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def json_of(text: bytes | str) -> Any:
    """Return the value of a JSON text. Raises ValueError when it is not JSON, or has something that
    only Python's reader accepts: NaN, numbers out of bounds, halves of surrogate pairs, and nesting
    deeper than could be read again."""
    try:
        value = json.loads(text, parse_constant=no_number)
        if not is_flat_enough(value):
            raise RecursionError
        octets(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except RecursionError:
        raise ValueError(f"nested more than {JSON_DEPTH_MAX} deep") from None
    return value


def no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
