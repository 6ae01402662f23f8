"""Write the table of options into docs/spark-amqp.md from what spark/option_values.py declares.

python tools/generate_spark_options.py          write it
python tools/generate_spark_options.py --check  say whether it is fresh (exit code 1: it is not)
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from sluicemq.spark.option_declaration import OptionDeclaration
from sluicemq.spark.options import Options

TARGET = Path(__file__).resolve().parent.parent / "docs" / "spark-amqp.md"
BEGIN = "<!-- options: written by tools/generate_spark_options.py, do not edit -->\n"
END = "<!-- end of options -->\n"


def default_words(declared: OptionDeclaration, value: object) -> str:
    """A default, as a user would write it."""
    if declared.default_words:
        return declared.default_words
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value}`"


def type_words(declared: OptionDeclaration) -> str:
    """What may be written."""
    if declared.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in declared.choices)
    return {
        "count": "number",
        "switch": "`true`, `false`",
        "list": "names, comma between",
        "offset": "word, number, time",
    }.get(declared.kind, "text")


def table() -> str:
    """The options, in the order they are declared."""
    lines = ["| option | side | type | default | meaning |", "|---|---|---|---|---|"]
    for each in fields(Options):
        declared: OptionDeclaration = each.metadata["declared"]
        cells = (
            f"`{declared.name}`",
            declared.side,
            type_words(declared),
            default_words(declared, each.default),
            declared.help,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def document() -> str:
    """The page as it is, with the table as it should be."""
    page = TARGET.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{TARGET.name} has lost the marks around the table of options")
    return before + begin + table() + end + after


def main(arguments: list[str]) -> int:
    """Write, or compare."""
    wanted = document()
    if arguments == ["--check"]:
        fresh = TARGET.read_text(encoding="utf-8") == wanted
        print(f"{TARGET.name} is {'fresh' if fresh else 'stale'}")
        return 0 if fresh else 1
    TARGET.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
