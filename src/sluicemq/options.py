"""What an option is: its type, default, bounds and words, and the check of its value.

The options themselves are in config.py and the files named *_config.py.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeGuard, cast

from sluicemq.errors import Refused

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - for Config and its sections
else:

    def dataclass(**_: bool) -> Callable[[type], type]:
        """Return a decorator that makes a dataclass of a subclass of Frozen. Checkers of types take
        it for that of the standard library, which would generate code for each class; that takes a
        tenth of every start."""
        return dataclasses.dataclass(init=False, repr=False, eq=False)


SIZE: Final = re.compile("([0-9]{1,18}) *([A-Za-z]*)")
UNITS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{
        prefix + ending: base**power
        for power, prefix in enumerate("kmgtp", start=1)
        for ending, base in (("", 1024), ("b", 1000), ("ib", 1024))
    },
}
"""The units as RabbitMQ has them: kB is 1000 bytes, k and kiB are 1024."""


class Option(NamedTuple):
    """What is known about one field besides its type and default.

    `keys` are further names a user may write: RabbitMQ's first, where it has one.
    """

    kind: str
    """How the value is written: text, choice, switch, names, count, bytes, fraction, credit."""
    help: str
    unit: str = ""
    keys: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    or_zero: bool = False
    """0 is a value too, though it is below `low`."""
    choices: tuple[str, ...] = ()
    optional: bool = False
    """None is a value: `default_words` says what it means."""
    default_words: str = ""
    secret: bool = False
    """Never shown in an error, a log or a repr."""

    def allowed(self) -> str:
        """Return the allowed values in words that end an error message."""
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "switch":
            return "true or false"
        if self.kind == "names":
            which = f" out of {', '.join(self.choices)}" if self.choices else ""
            return f"names{which} separated by spaces or commas, or none"
        if self.kind == "text":
            return "a text that is not empty"
        if self.kind == "fraction":
            return f"a number from {self.low:g} to {self.high:g}"
        if self.kind == "credit":
            return (
                "two whole numbers FIRST,SECOND such as 400,200: initial credit, then how many"
                f" to handle before more is granted; {self.low} <= SECOND <= FIRST <= {self.high}"
            )
        unit = f" of {self.unit}" if self.unit else ""
        sizes = "; a unit such as kB, MB or MiB may follow" if self.kind == "bytes" else ""
        zero = ", or 0" if self.or_zero else ""
        return f"a whole number{unit} from {self.low} to {self.high}{zero}{sizes}"

    def accepts(self, value: object) -> bool:
        """Tell whether a value of the field's type is within the bounds."""
        if value is None:
            return self.optional
        if self.kind == "choice":
            return value in self.choices
        if self.kind == "switch":
            return isinstance(value, bool)
        if self.kind == "names":
            return isinstance(value, tuple) and all(self._accepts_name(name) for name in value)
        if self.kind == "text":
            return isinstance(value, str) and value != ""
        if self.kind == "credit":
            return _is_credit(value) and self.low <= value[1] <= value[0] <= self.high
        numbers = (int, float) if self.kind == "fraction" else (int,)
        if not isinstance(value, numbers) or isinstance(value, bool):
            return False
        return self.low <= value <= self.high or (self.or_zero and value == 0)

    def _accepts_name(self, name: object) -> bool:
        if self.choices:
            return name in self.choices
        return isinstance(name, str) and name != ""


def _is_credit(value: object) -> TypeGuard[tuple[int, int]]:
    return isinstance(value, tuple) and len(value) == 2 and all(type(n) is int for n in value)


def declared(default: Any, kind: str, help: str, **more: Any) -> Any:  # noqa: A002 (its name)
    option = Option(kind=kind, help=help, optional=default is None, **more)
    return field(default=default, repr=not option.secret, metadata={"option": option})


class Frozen:
    """Base of what is made once from named values, and never changed: Config and its sections. Two
    with the same values are equal."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        own = vars(self)
        for each in fields(cast(Any, self)):
            if each.name in values:
                own[each.name] = values.pop(each.name)
            elif each.default is not MISSING:
                own[each.name] = each.default
            else:
                assert each.default_factory is not MISSING
                own[each.name] = each.default_factory()
        if values:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(values))}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        shown = [each.name for each in fields(cast(Any, self)) if each.repr]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


class Section(Frozen):
    """Base of the sections: checks every field as the object is made."""

    def __post_init__(self) -> None:
        for each, option in options_of(type(self)):
            value = getattr(self, each.name)
            if not option.accepts(value):
                shown = "(hidden)" if option.secret else repr(value)
                raise Refused(f"{each.name} = {shown}: must be {option.allowed()}")


def options_of(section: type[Section]) -> Iterator[tuple[Field[Any], Option]]:
    """Return the fields of a section, each with its declaration."""
    for each in fields(cast(Any, section)):
        yield each, each.metadata["option"]


def names_of(section: str, field_name: str, option: Option) -> Sequence[str]:
    """Return every name a user may write for an option, ours last."""
    ours = f"{section}.{field_name}"
    return (*option.keys, ours)


def size_of(text: str) -> int:
    """Parse a size such as 100MB or 1GiB into bytes. Raises ValueError when it is none."""
    found = SIZE.fullmatch(text)
    if not found or found[2].lower() not in UNITS:
        raise ValueError(text)
    return int(found[1]) * UNITS[found[2].lower()]
