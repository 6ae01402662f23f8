"""Write docs/configuration.md from the declarations in src/sluicemq/config.py.

python tools/generate_configuration.py          write it
python tools/generate_configuration.py --check  say whether it is fresh (exit code 1: it is not)
"""

from __future__ import annotations

import sys
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

Every option can be set in four places. The first that has it wins:

1. on the command line: `sluicemq serve --set KEY=VALUE` (and `--host`, `--port`, `--data-dir`);
2. in the environment: `SLUICEMQ_` and the key in capitals, every dot an underscore; after these,
   variables of a RabbitMQ node: `RABBITMQ_NODE_PORT` and its like
   ([from-rabbitmq.md](from-rabbitmq.md));
3. in a file: `sluicemq serve --config FILE`, TOML or RabbitMQ's `rabbitmq.conf` form;
4. the default.

`sluicemq config show --origin` shows each option with its value and where that comes from, and
`sluicemq config check` whether a broker would start with them.

The two files below say the same. The form is told by the file's name (`.toml`, `.conf`), else by
what is in it.

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

Sizes take RabbitMQ's units: `kB`, `MB`, `GB` are powers of 1000; `KiB`, `MiB`, `GiB` and plain `k`,
`M`, `G` are powers of 1024. An unknown key or a value out of bounds stops the start with one line
that names the option, the value and what is allowed. Keys of RabbitMQ's that set nothing here, and
whose absence changes no promise (`cluster_partition_handling`, those of plug-ins), are passed over;
the log names each with the reason.

The keys are RabbitMQ's where it has one. RabbitMQ takes `credit_flow_default_credit` and
`msg_store_credit_disc_bound` in its advanced.config only; here they are plain keys, written
`400,200`.
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
    lines = ["", f"## {name}", "", (section.__doc__ or "").strip()]
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
        "Each number set by itself replaces the profile's. What `adaptive` does is told in",
        "[flow-control.md](flow-control.md).",
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
