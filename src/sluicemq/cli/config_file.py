"""Makes a Config of a user's settings: files, variables, `--set`; later ones override earlier ones.

A file is TOML, with our tables or RabbitMQ's dotted keys, or rabbitmq.conf. Every source becomes
entries (origin, key, value); the last entry for an option wins. A wrong entry is refused with its
origin, the option, the value and what is allowed. Options that only RabbitMQ has are passed over,
and noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sluicemq.cli import rabbitmq_environment
from sluicemq.cli.rabbitmq_keys import why_passed_over
from sluicemq.config import SECTIONS, Config
from sluicemq.errors import Refused
from sluicemq.options import Option, names_of, options_of, size_of

ENVIRONMENT_PREFIX: Final = "SLUICEMQ_"
ONE_NAME: Final = re.compile(r"(loopback_users|default_user_tags)\.(.+)")
"""`loopback_users.guest = true`, another of RabbitMQ's ways to write a list."""
ONE_OF_SEVERAL: Final = re.compile(
    r"(auth_mechanisms|ssl_options\.(?:ciphers|versions)|cluster_formation\.classic_config\.nodes)"
    r"\.[0-9]+"
)
"""`auth_mechanisms.1 = PLAIN`, RabbitMQ's way to write a list."""
LISTENERS: Final = ("listeners.tcp.", "listeners.ssl.")
NOT_OPTIONS: Final = ("SLUICEMQ_CONFIG", "SLUICEMQ_COMPILE", "SLUICEMQ_TEST_")
"""The beginnings of variables that are for the command line itself, for the command of a checkout
and for the tests."""

KEY_PARTS_MAX: Final = 20
"""The most parts that dots may separate in a key: the longest actual key has four."""

TOML_TABLE: Final = re.compile(r"\s*\[([^\[\]]+)\]")
TOML_KEY: Final = re.compile(r"\s*([\w\"'. \t-]+?)\s*=")

NOTHING: Final[dict[tuple[str, str], tuple[object, ...]]] = {
    ("net", "connection_max"): ("infinity",),
    ("log", "file"): ("false", False),
}
"""Words that leave an option without a value, as RabbitMQ has them."""

DIGITS: Final = re.compile("[0-9]{1,18}")


class Setting(NamedTuple):
    """One setting of a user, and its origin."""

    origin: str
    key: str
    value: object


class SettingTarget(NamedTuple):
    """The section and field that a setting sets."""

    section: str
    field: str
    option: Option


class ReadConfig(NamedTuple):
    """A configuration, with the origin of each option."""

    config: Config
    origins: Mapping[tuple[str, str], str]
    """The origin of each option, by section and field; an option without one has its default."""
    notes: Sequence[str]
    """Sentences about settings that were passed over."""


def load(file: Path | None, sets: Sequence[str], env: Mapping[str, str]) -> ReadConfig:
    """Return the configuration: `sets` over `env` over `file` over the defaults. When `file` is
    None it reads those that RabbitMQ's variables name. Raises Refused, which names the place at
    fault."""
    files = [file] if file else rabbitmq_environment.files_of(env)
    entries = [entry for each in files for entry in read_file(each)]
    own = [*read_environment(env), *read_sets(sets)]
    clustered = any(each.key.startswith("cluster") for each in (*entries, *own))
    of_rabbitmq = rabbitmq_environment.settings_of(env, clustered=clustered)
    entries += [Setting(variable, key, value) for variable, key, value in of_rabbitmq]
    found = config_of([*entries, *own])
    return found._replace(notes=[*found.notes, *rabbitmq_environment.notes_on(env)])


def config_of(entries: Iterable[Setting]) -> ReadConfig:
    """Return the configuration that these settings make; the later of two for the same option
    counts."""
    targets = _targets()
    chosen: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    origins: dict[tuple[str, str], str] = {}
    notes: list[str] = []
    for entry in entries:
        target = _find(entry, targets)
        if isinstance(target, str):
            notes.append(f"{entry.origin}: {entry.key} is passed over: {target}")
            continue
        into = chosen[target.section]
        for name, value in _values(entry, target, into):
            into[name] = value
            origins[target.section, name] = entry.origin
    sections: dict[str, Any] = {name: SECTIONS[name](**chosen[name]) for name in SECTIONS}
    return ReadConfig(Config(**sections), origins, notes)


def read_sets(sets: Sequence[str]) -> Iterator[Setting]:
    """Read `key=value` settings from the command line."""
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise Refused(f"--set {text}: must be KEY=VALUE, such as --set heartbeat=30")
        yield Setting("command line", key.strip(), value.strip())


def read_environment(env: Mapping[str, str]) -> Iterator[Setting]:
    """Read variables such as SLUICEMQ_HEARTBEAT=30 and SLUICEMQ_FLOW_PROFILE=adaptive: a key in
    capitals, _ for every dot."""
    given = [each for each in env if each.startswith(ENVIRONMENT_PREFIX)]
    given = sorted(each for each in given if not each.startswith(NOT_OPTIONS))
    names = {environment_name(key): key for key in _targets()} if given else {}
    for variable in given:
        if variable not in names:
            raise Refused(f"environment: {variable} is not an option{_nearest(variable, names)}")
        yield Setting(variable, names[variable], env[variable])


def environment_name(key: str) -> str:
    """Return the environment variable for a key."""
    return ENVIRONMENT_PREFIX + key.replace(".", "_").upper()


def read_file(path: Path) -> Iterator[Setting]:
    """Read a configuration file, TOML or rabbitmq.conf by its name or its content. Raises Refused
    when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path}: cannot be read: {error}") from error
    return read_text(path, text)


def read_text(path: Path, text: str) -> Iterator[Setting]:
    """Read the entries of a configuration file's text; `path` names it in errors."""
    if path.suffix == ".toml" or (path.suffix != ".conf" and _looks_like_toml(text)):
        return _read_toml(path, text)
    return _read_conf(path, text)


def _looks_like_toml(text: str) -> bool:
    try:
        _toml_tree(text)
    except ValueError:
        return any(line.lstrip().startswith("[") for line in text.splitlines())
    return True


def _toml_tree(text: str) -> dict[str, object]:
    """Parse TOML. Raises ValueError when it is invalid, or nested deeper than any configuration."""
    import tomllib  # noqa: PLC0415 (only for those who have a file: start-up time)

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _read_toml(path: Path, text: str) -> Iterator[Setting]:
    try:
        tree = _toml_tree(text)
    except ValueError as error:
        raise Refused(f"{path}: is not TOML: {error}") from error
    lines = _toml_lines(text)
    for key, value in _flatten(str(path), "", tree):
        line = lines.get(key)
        yield Setting(f"{path}:{line}" if line else str(path), key, value)


def _flatten(origin: str, prefix: str, tree: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    if prefix.count(".") > KEY_PARTS_MAX:
        raise Refused(f"{origin}: {prefix[:60]}… is not an option: it has too many parts")
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(origin, f"{prefix}{key}.", value)
        else:
            yield prefix + key, value


def _toml_lines(text: str) -> dict[str, int]:
    """Return the line of each key that begins one, because tomllib does not tell. Keys in inline
    tables are left out."""
    found: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if table := TOML_TABLE.match(line):
            prefix = _plain_key(table[1]) + "."
        elif key := TOML_KEY.match(line):
            found[prefix + _plain_key(key[1])] = number
    return found


def _plain_key(key: str) -> str:
    """Return a key of TOML without its quotes and blanks."""
    return ".".join(part.strip(" \t\"'") for part in key.split("."))


def _read_conf(path: Path, text: str) -> Iterator[Setting]:
    for number, line in enumerate(text.splitlines(), start=1):
        kept = _without_comment(line).strip()
        if not kept:
            continue
        key, equals, value = kept.partition("=")
        if not equals or not key.strip():
            raise Refused(f"{path}:{number}: {kept!r} is not of the form key = value")
        yield Setting(f"{path}:{number}", key.strip(), _unquoted(value.strip()))


def _without_comment(line: str) -> str:
    """Return a line without its comment: a # begins one, except in single quotes or after a
    backslash (RabbitMQ's rules)."""
    kept: list[str] = []
    quoted = False
    for position, char in enumerate(line):
        if char == "'":
            quoted = not quoted
        elif char == "#" and not quoted:
            if position and line[position - 1] == "\\":
                kept.pop()
            else:
                break
        kept.append(char)
    return "".join(kept)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value


def _targets() -> dict[str, SettingTarget]:
    """Return the target of each name; a RabbitMQ name may also be in its section's table."""
    targets: dict[str, SettingTarget] = {}
    for section, declared in SECTIONS.items():
        for each, option in options_of(declared):
            target = SettingTarget(section, each.name, option)
            for name in names_of(section, each.name, option):
                targets[name] = target
                targets.setdefault(f"{section}.{name}", target)
    return targets


def _find(entry: Setting, targets: Mapping[str, SettingTarget]) -> SettingTarget | str:
    """Return the target of a setting, or why it sets nothing. Raises Refused for no option."""
    one = ONE_OF_SEVERAL.fullmatch(entry.key) or ONE_NAME.fullmatch(entry.key)
    key = one[1] if one else entry.key
    target = targets.get(key)
    if target is not None:
        return target
    reason = why_passed_over(entry.key, entry.value)
    if reason is None:
        raise Refused(f"{entry.origin}: {entry.key} is not an option{_nearest(key, targets)}")
    return reason


def _nearest(word: str, known: Mapping[str, object]) -> str:
    import difflib  # noqa: PLC0415 (only on the way out)

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else "; docs/configuration.md lists them all"


def _values(
    entry: Setting, target: SettingTarget, so_far: Mapping[str, Any]
) -> Iterator[tuple[str, object]]:
    """Yield the fields that a setting sets; two of RabbitMQ's keys do not match exactly one."""
    value = entry.value
    if entry.key.startswith(LISTENERS) and isinstance(value, str) and ":" in value:
        host, _, value = value.rpartition(":")
        yield "host", host.strip("[]")
    elif one := ONE_NAME.fullmatch(entry.key):
        value = _with_name(entry, one[2], so_far.get(target.field, ()))
    elif ONE_OF_SEVERAL.fullmatch(entry.key):
        value = [*so_far.get(target.field, ()), *_names(value)]
    elif value in NOTHING.get((target.section, target.field), ()):
        yield target.field, None
        return
    try:
        parsed = PARSERS[target.option.kind](value)
    except (ValueError, TypeError):
        raise _refusal(entry, target.option) from None
    if not target.option.accepts(parsed):
        raise _refusal(entry, target.option)
    yield target.field, parsed


def _with_name(entry: Setting, name: str, names: Sequence[str]) -> list[str]:
    """Add or remove a name in a list, as `loopback_users.guest = false` does in most rabbitmq.conf
    files."""
    written = str(entry.value).lower()
    if written not in ("true", "false"):
        raise Refused(f"{entry.origin}: {entry.key} = {entry.value}: must be true or false")
    others = [other for other in names if other != name]
    return [*others, name] if written == "true" else others


def _refusal(entry: Setting, option: Option) -> Refused:
    shown = "(hidden)" if option.secret else entry.value
    return Refused(f"{entry.origin}: {entry.key} = {shown}: must be {option.allowed()}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _switch(value: object) -> bool:
    if value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    if isinstance(value, str) and not DIGITS.fullmatch(value):
        raise ValueError(value)
    return int(value)


def _bytes(value: object) -> int:
    if not isinstance(value, str):
        return _count(value)
    return size_of(value)


def _fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(value)
    return float(value)


def _credit(value: object) -> tuple[int, int]:
    parts = value if isinstance(value, list) else _text(value).strip("{}").split(",")
    first, second = (_count(part.strip() if isinstance(part, str) else part) for part in parts)
    return first, second


def _names(value: object) -> tuple[str, ...]:
    words = [_text(v) for v in value] if isinstance(value, list) else _text(value).split()
    names = tuple(part for word in words for part in word.split(",") if part)
    return () if names == ("none",) else names


PARSERS: Final[dict[str, Callable[[object], Any]]] = {
    "text": _text,
    "choice": _text,
    "switch": _switch,
    "names": _names,
    "count": _count,
    "bytes": _bytes,
    "fraction": _fraction,
    "credit": _credit,
}
"""The parser of each kind of option; it raises ValueError or TypeError for an invalid value."""
