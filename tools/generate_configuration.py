"""Write docs/configuration.md from the declarations in src/sluicemq/config.py.

python tools/generate_configuration.py          write it
python tools/generate_configuration.py --check  say whether it is fresh (exit code 1: it is not)
"""

from __future__ import annotations

import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any

from sluicemq.cli.config_file import environment_name
from sluicemq.config import SECTIONS
from sluicemq.flow.profiles import ADAPTIVE, PROFILES, RaftProfile
from sluicemq.options import Option, Section, options_of

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

HEAD = """\
# Configuration

Written by `tools/generate_configuration.py` from `src/sluicemq/config.py`; do not edit it here.

You can set every option in these places; an earlier one overrides the later ones:

1. on the command line: `sluicemq serve --set KEY=VALUE` (and `--host`, `--port`, `--data-dir`);
2. in the environment: `SLUICEMQ_` followed by the key in capitals, with underscores for dots;
3. in the environment of a RabbitMQ node: `RABBITMQ_NODE_PORT` and some others
   ([from-rabbitmq.md](from-rabbitmq.md));
4. in a file: `sluicemq serve --config FILE`, in TOML or in the form of RabbitMQ's `rabbitmq.conf`.

`sluicemq config show --origin` shows each option with its value and where the value comes from;
`sluicemq config check` tells you whether a broker would start with them.

The two files below say the same. The broker tells their form by the name (`.toml`, `.conf`), or by
the content if the name does not tell.

```toml
# sluicemq.toml
listeners.tcp.default = 5673
[flow]
profile = "rabbitmq-3.8"
[memory]
vm_memory_high_watermark.relative = 0.5
```

```ini
# rabbitmq.conf
listeners.tcp.default = 5673
flow.profile = rabbitmq-3.8
vm_memory_high_watermark.relative = 0.5
```

Sizes can have RabbitMQ's units: `kB`, `MB`, `GB` are powers of 1000; `KiB`, `MiB`, `GiB` and plain
`k`, `M`, `G` are powers of 1024. If a key is unknown or a value out of bounds, the broker does not
start; one line names the option, the value and what is allowed. Some of RabbitMQ's keys have no
meaning here and change no promise, such as `cluster_partition_handling` and the keys of plug-ins.
The broker passes over these, and its log names each with the reason.

Keys have RabbitMQ's names where RabbitMQ has such a key. RabbitMQ reads
`credit_flow_default_credit` and `msg_store_credit_disc_bound` from its advanced.config only; here
they are plain keys, written `400,200`.
"""


def shown(option: Option, value: Any) -> str:
    """A default, as a user would write it."""
    if value is None:
        return option.default_words
    if isinstance(value, tuple):
        return f"`{' '.join(str(part) for part in value) or 'none'}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def range_words(option: Option) -> str:
    """The bounds, briefly."""
    if option.kind == "choice" or (option.kind == "names" and option.choices):
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.kind in ("count", "bytes"):
        unit = f" {option.unit}" if option.unit else ""
        zero = ", or 0" if option.or_zero else ""
        return f"{option.low} to {option.high}{unit}{zero}"
    if option.kind == "fraction":
        return f"{option.low:g} to {option.high:g}"
    if option.kind == "credit":
        return f"FIRST,SECOND {option.unit}; {option.low} <= SECOND <= FIRST <= {option.high}"
    words = {"text": "text", "switch": "`true` or `false`", "names": "names, or `none`"}
    return words[option.kind]


def section_lines(name: str, section: type[Section]) -> list[str]:
    """One section: its sentence, then a heading and a list an option."""
    lines = ["", f"## {name}", "", cleandoc(section.__doc__ or "")]
    for field, option in options_of(section):
        ours = f"{name}.{field.name}"
        main = option.keys[0] if option.keys else ours
        others = [key for key in (*option.keys[1:], ours) if key != main]
        lines += ["", f"### {main}", "", option.help, ""]
        lines += [f"- default: {shown(option, field.default)}"]
        lines += [f"- allowed: {range_words(option)}"]
        if others:
            lines += ["- also written: " + ", ".join(f"`{key}`" for key in others)]
        lines += [f"- environment: `{environment_name(main)}`"]
    return lines


def profile_lines() -> list[str]:
    """The numbers of each profile."""
    lines = ["", "## What the profiles set", ""]
    lines += ["| profile | credit_flow_default_credit | msg_store_credit_disc_bound |"]
    lines += ["|---|---|---|"]
    for profile in PROFILES.values():
        credit, store = profile.credit_flow_default_credit, profile.msg_store_credit_disc_bound
        most = "at most " if profile.name == ADAPTIVE else ""
        numbers = f"{most}{credit.initial},{credit.more_after} | {store.initial},{store.more_after}"
        lines.append(f"| `{profile.name}` | {numbers} |")
    names = RaftProfile._fields
    lines += ["", f"| profile | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
    for profile in PROFILES.values():
        lines.append(f"| `{profile.name}` | {' | '.join(map(str, profile.raft))} |")
    return [
        *lines,
        "",
        "A number that you set by itself replaces the profile's.",
        "[flow-control.md](flow-control.md) describes what `adaptive` does.",
    ]


def document() -> str:
    """The whole page."""
    lines = [line for name, section in SECTIONS.items() for line in section_lines(name, section)]
    return HEAD + "\n".join([*lines, *profile_lines()]) + "\n"


def main(arguments: list[str]) -> int:
    """Write, or compare."""
    if arguments == ["--check"]:
        fresh = TARGET.read_text(encoding="utf-8") == document()
        print(f"{TARGET.name} is {'fresh' if fresh else 'stale'}")
        return 0 if fresh else 1
    TARGET.write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
