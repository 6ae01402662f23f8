"""SIGHUP: applies those options that can change while the broker runs.

TLS's files are read again even if their names are the same; open connections keep their settings.
Either all options that need no restart are as configured afterwards, or nothing has changed and the
log says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sluicemq.config import SECTIONS, Config
from sluicemq.options import options_of

if TYPE_CHECKING:
    from sluicemq.options import Option

FIXED: Final[dict[str, frozenset[str]]] = {
    "net": frozenset(("host", "port", "tcp_listener", "backlog", "frame_max")),
    "tls": frozenset(("host", "port")),
    "auth": frozenset(("default_user", "default_pass", "default_vhost")),
}
"""The sections in which something can change, with the options that cannot: listeners stay, users
are in the data directory, and messages in large frames may be on their way to any client."""


def merged(current: Config, written: Config) -> tuple[Config, list[str], list[str]]:
    """Return the new configuration, the changed options, and those that need a restart."""
    sections: dict[str, Any] = {}
    changed: list[str] = []
    kept: list[str] = []
    for name, declared in SECTIONS.items():
        before, after = getattr(current, name), getattr(written, name)
        values: dict[str, Any] = {}
        for field, option in options_of(declared):
            value = getattr(after, field.name)
            if value == getattr(before, field.name):
                continue
            if name in FIXED and field.name not in FIXED[name]:
                values[field.name] = value
                changed.append(shown(name, field.name, option, value))
            else:
                kept.append(f"{name}.{field.name}")
        sections[name] = replace(before, **values)
    return Config(**sections), changed, kept


def shown(section: str, field: str, option: Option, value: object) -> str:
    """Return an option and its new value, for the log."""
    if option.secret:
        value = "(hidden)"
    elif isinstance(value, tuple):
        value = " ".join(value) or "none"
    return f"{section}.{field} = {value}"


def summary(changed: Sequence[str], kept: Sequence[str], certificates: bool) -> str:
    """Return one line for the log about the changes of a reload."""
    parts = ["configuration reloaded"]
    if certificates:
        parts.append("certificates loaded for new connections")
    if changed:
        parts.append("changed for new connections: " + ", ".join(changed))
    if kept:
        parts.append("need a restart: " + ", ".join(kept))
    return "; ".join(parts)
