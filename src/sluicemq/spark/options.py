"""Parses the options of `format("amqp")`; errors name the option and the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from sluicemq.errors import Refused
from sluicemq.spark.option_conflicts import check
from sluicemq.spark.option_declaration import OptionDeclaration, Side, shown
from sluicemq.spark.option_values import OptionValues
from sluicemq.spark.unknown_options import no_such_option


@dataclass(frozen=True, kw_only=True)
class Options(OptionValues):
    """The values of all options, which do not contradict each other; made by `parse`."""

    @classmethod
    def parse(cls, given: Mapping[str, str], side: Side) -> Self:
        """Parse a user's options, for one side; names may be in any case. Raises `Refused`, which
        names the option and the value, for unknown options, invalid values and contradictions."""
        known = {declared.name.lower(): (name, declared) for name, declared in declarations()}
        known |= {alias: known[name] for alias, name in ALIASES.items()}
        values: dict[str, Any] = {}
        for key, text in given.items():
            found = known.get(key.lower())
            if found is None:
                if key.lower() in IGNORED:
                    continue
                raise no_such_option(key)
            name, declared = found
            if declared.name in SPARKS_OWN[side]:
                continue
            key = key.lower() if key.lower() in ALIASES else declared.name
            if name in values:
                raise Refused(f"{key} = {shown(declared, text)}: {declared.name} is given twice")
            if declared.side not in (side, "both"):
                raise Refused(
                    f"{key} = {shown(declared, text)}: an option of the {declared.side} only"
                )
            try:
                values[name] = parse_one(declared, key, text)
            except (ValueError, KeyError):
                why = declared.why_gone if text.strip().lower() == declared.gone else ""
                raise Refused(
                    f"{key} = {shown(declared, text)}: must be {declared.allowed()}{why}"
                ) from None
        made = cls(**values)
        check(made, side, values)
        return made


def parse_one(declared: OptionDeclaration, key: str, text: str) -> Any:
    """Return the value of an option. Under a name in the singular the text is one item as it is,
    commas and all. Raises ValueError or KeyError when the text is invalid."""
    value = declared.parse(text)
    return (text,) if key.lower() in ALIASES else value


ALIASES: Final = {"uri": "uris", "queue": "queues"}
IGNORED: Final = ("path", "queryname")
"""Options that Spark itself adds, without a meaning here."""

SPARKS_OWN: Final[Mapping[Side, tuple[str, ...]]] = {
    "both": (),
    "source": (),
    "sink": ("checkpointLocation",),
}
"""Options that Spark adds on one side only, where ours of that name are on the other."""


def declarations() -> list[tuple[str, OptionDeclaration]]:
    """Return the field names of all options with their declarations, in order."""
    return [(each.name, each.metadata["declared"]) for each in fields(OptionValues)]
