"""Write src/sluicemq/amqp/methods.py, one class for each AMQP method, from the table below.

    python tools/generate_methods.py          write it
    python tools/generate_methods.py --check  say whether it is fresh (exit code 1: it is not)

The table is AMQP 0-9-1 with RabbitMQ's extensions. A line: id and name; `s` when the sender waits
for an answer, `c` when a content follows; then the fields in wire order. A field in brackets is
reserved: skipped when decoded, written as zeros.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

LINE_MAX: Final = 100
TARGET: Final = Path(__file__).resolve().parent.parent / "src" / "sluicemq" / "amqp" / "methods.py"

TABLE: Final = """
connection 10
  10 start         s  version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr
  11 start-ok      -  client_properties:table mechanism:shortstr response:longstr locale:shortstr
  20 secure        s  challenge:longstr
  21 secure-ok     -  response:longstr
  30 tune          s  channel_max:short frame_max:long heartbeat:short
  31 tune-ok       -  channel_max:short frame_max:long heartbeat:short
  40 open          s  virtual_host:shortstr (capabilities):shortstr (insist):bit
  41 open-ok       -  (known_hosts):shortstr
  50 close         s  reply_code:short reply_text:shortstr failed_class_id:short failed_method_id:short
  51 close-ok      -
  60 blocked       -  reason:shortstr
  61 unblocked     -
  70 update-secret s  new_secret:longstr reason:shortstr
  71 update-secret-ok -
channel 20
  10 open          s  (out_of_band):shortstr
  11 open-ok       -  (channel_id):longstr
  20 flow          s  active:bit
  21 flow-ok       -  active:bit
  40 close         s  reply_code:short reply_text:shortstr failed_class_id:short failed_method_id:short
  41 close-ok      -
access 30
  10 request       s  realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
  11 request-ok    -  ticket:short
exchange 40
  10 declare       s  (ticket):short exchange:shortstr exchange_type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table
  11 declare-ok    -
  20 delete        s  (ticket):short exchange:shortstr if_unused:bit nowait:bit
  21 delete-ok     -
  30 bind          s  (ticket):short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
  31 bind-ok       -
  40 unbind        s  (ticket):short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
  51 unbind-ok     -
queue 50
  10 declare       s  (ticket):short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table
  11 declare-ok    -  queue:shortstr message_count:long consumer_count:long
  20 bind          s  (ticket):short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
  21 bind-ok       -
  30 purge         s  (ticket):short queue:shortstr nowait:bit
  31 purge-ok      -  message_count:long
  40 delete        s  (ticket):short queue:shortstr if_unused:bit if_empty:bit nowait:bit
  41 delete-ok     -  message_count:long
  50 unbind        s  (ticket):short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
  51 unbind-ok     -
basic 60
  10 qos           s  prefetch_size:long prefetch_count:short global_:bit
  11 qos-ok        -
  20 consume       s  (ticket):short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table
  21 consume-ok    -  consumer_tag:shortstr
  30 cancel        s  consumer_tag:shortstr nowait:bit
  31 cancel-ok     -  consumer_tag:shortstr
  40 publish       c  (ticket):short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
  50 return        c  reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
  60 deliver       c  consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
  70 get           s  (ticket):short queue:shortstr no_ack:bit
  71 get-ok        c  delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
  72 get-empty     -  (cluster_id):shortstr
  80 ack           -  delivery_tag:longlong multiple:bit
  90 reject        -  delivery_tag:longlong requeue:bit
  100 recover-async -  requeue:bit
  110 recover      s  requeue:bit
  111 recover-ok   -
  120 nack         -  delivery_tag:longlong multiple:bit requeue:bit
confirm 85
  10 select        s  nowait:bit
  11 select-ok     -
tx 90
  10 select        s
  11 select-ok     -
  20 commit        s
  21 commit-ok     -
  30 rollback      s
  31 rollback-ok   -
"""  # noqa: E501

PYTHON_TYPES: Final = {
    "octet": ("int", "0"),
    "short": ("int", "0"),
    "long": ("int", "0"),
    "longlong": ("int", "0"),
    "bit": ("bool", "False"),
    "shortstr": ("str", '""'),
    "longstr": ("bytes", 'b""'),
    "table": ("Table | None", "None"),
}
"""For each AMQP type the type of the argument and its default."""
ZEROS: Final = {"short": r'b"\0\0"', "shortstr": r'b"\0"', "longstr": r'b"\0\0\0\0"'}

HEAD: Final = '''\
"""One class for each method of AMQP 0-9-1 and of RabbitMQ's extensions.

Written by tools/generate_methods.py from the table in it; do not edit it here.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sluicemq.amqp.method import Method, check_end
from sluicemq.amqp.types import (
    Table,
    decode_long,
    decode_longlong,
    decode_longstr,
    decode_octet,
    decode_short,
    decode_shortstr,
    decode_table,
    encode_bits,
    encode_long,
    encode_longlong,
    encode_longstr,
    encode_octet,
    encode_short,
    encode_shortstr,
    encode_table,
    skip_longstr,
    skip_shortstr,
)
'''

LISTING: Final = '''\
ALL_METHODS: Final[tuple[type[Method], ...]] = (
{names})

METHODS: Final[dict[int, type[Method]]] = {{
    method.class_id << 16 | method.method_id: method for method in ALL_METHODS
}}
"""The class of each method, by the first four bytes of a method frame's payload."""
'''


class Field(NamedTuple):
    """One argument of a method."""

    name: str
    kind: str
    reserved: bool


class MethodRow(NamedTuple):
    """One line of the table."""

    class_id: int
    method_id: int
    name: str
    flag: str
    fields: list[Field]

    @property
    def class_name(self) -> str:
        return "".join(word.capitalize() for word in self.name.replace(".", "-").split("-"))

    @property
    def kept(self) -> list[Field]:
        """The fields the class has."""
        return [field for field in self.fields if not field.reserved]


def read_table() -> list[MethodRow]:
    """The rows of TABLE."""
    rows: list[MethodRow] = []
    class_name, class_id = "", 0
    for line in TABLE.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            class_name, class_id = words[0], int(words[1])
            continue
        fields = [read_field(word) for word in words[3:]]
        name = f"{class_name}.{words[1]}"
        rows.append(MethodRow(class_id, int(words[0]), name, words[2], fields))
    return rows


def read_field(word: str) -> Field:
    name, kind = word.split(":")
    return Field(name.strip("()"), kind, name.startswith("("))


def groups(fields: list[Field]) -> list[list[Field]]:
    """The fields, each by itself, but neighbouring bits (which share an octet) together."""
    found: list[list[Field]] = []
    for field in fields:
        if field.kind == "bit" and found and found[-1][0].kind == "bit":
            found[-1].append(field)
        else:
            found.append([field])
    return found


def write_class(row: MethodRow) -> str:
    """The source of one class."""
    names = [f'"{field.name}"' for field in row.kept]
    lines = [
        f"class {row.class_name}(Method):",
        listed("__slots__", sorted(names)),
        f"    class_id: ClassVar[int] = {row.class_id}",
        f"    method_id: ClassVar[int] = {row.method_id}",
        f'    NAME: ClassVar[str] = "{row.name}"',
    ]
    if row.kept:
        lines.append(listed("FIELDS: ClassVar[tuple[str, ...]]", names))
    if row.flag == "s":
        lines.append("    synchronous: ClassVar[bool] = True")
    if row.flag == "c":
        lines.append("    has_content: ClassVar[bool] = True")
    if row.kept:
        lines += ["", *write_init(row)]
    if row.fields:
        lines += ["", *write_encode(row), "", *write_decode(row)]
    return "\n".join(lines) + "\n"


def listed(name: str, items: list[str]) -> str:
    """The line that gives the tuple `items` a name: one line if that is short enough, or many."""
    flat = f"    {name} = ({', '.join(items)}{',' if len(items) == 1 else ''})"
    if len(flat) <= LINE_MAX:
        return flat
    return f"    {name} = (\n" + "".join(f"        {item},\n" for item in items) + "    )"


def write_init(row: MethodRow) -> list[str]:
    lines = ["    def __init__(", "        self,"]
    for field in row.kept:
        python_type, default = PYTHON_TYPES[field.kind]
        lines.append(f"        {field.name}: {python_type} = {default},")
    lines.append("    ) -> None:")
    for field in row.kept:
        if field.kind == "table":
            given = f"{{}} if {field.name} is None else {field.name}"
            lines.append(f"        self.{field.name}: Table = {given}")
        else:
            lines.append(f"        self.{field.name} = {field.name}")
    return lines


def write_encode(row: MethodRow) -> list[str]:
    parts = [encode_group(group) for group in groups(row.fields)]
    lines = ["    def encode_args(self) -> bytes:"]
    if len(parts) == 1:
        return [*lines, f"        return {parts[0]}"]
    lines += ['        return b"".join(', "            ("]
    return [*lines, *[f"                {part}," for part in parts], "            )", "        )"]


def encode_group(group: list[Field]) -> str:
    field = group[0]
    if field.kind == "bit":
        bits = ["False" if bit.reserved else f"self.{bit.name}" for bit in group]
        flat = ", ".join(bits)
        if len(flat) + len("                encode_bits(),") <= LINE_MAX:
            return f"encode_bits({flat})"
        inner = " " * 20
        return f"encode_bits(\n{inner}{flat}\n{inner[4:]})"
    if field.reserved:
        return ZEROS[field.kind]
    return f"encode_{field.kind}(self.{field.name})"


def write_decode(row: MethodRow) -> list[str]:
    lines = [
        "    @classmethod",
        f"    def decode_args(cls, buf: bytes, pos: int, end: int) -> {row.class_name}:",
        *[f"        {decode_group(group)}" for group in groups(row.fields)],
        "        check_end(pos, end)",
    ]
    given: list[str] = []
    for group in groups(row.fields):
        for n, field in enumerate(group):
            if not field.reserved:
                given.append(f"bits & {1 << n} != 0" if field.kind == "bit" else field.name)
    call = f"        return {row.class_name}({', '.join(given)})"
    if len(call) <= LINE_MAX:
        return [*lines, call]
    lines.append(f"        return {row.class_name}(")
    return [*lines, *[f"            {value}," for value in given], "        )"]


def decode_group(group: list[Field]) -> str:
    field = group[0]
    if field.kind == "bit":
        name = "_" if all(bit.reserved for bit in group) else "bits"
        return f"{name}, pos = decode_octet(buf, pos, end)"
    if field.reserved and field.kind == "short":
        return "_, pos = decode_short(buf, pos, end)"
    if field.reserved:
        return f"pos = skip_{field.kind}(buf, pos, end)"
    return f"{field.name}, pos = decode_{field.kind}(buf, pos, end)"


def write_module() -> str:
    """The whole of methods.py."""
    rows = read_table()
    listing = LISTING.format(names="".join(f"    {row.class_name},\n" for row in rows))
    return "\n\n".join([HEAD, *[write_class(row) for row in rows], listing])


def main() -> int:
    source = write_module()
    if "--check" in sys.argv[1:]:
        fresh = TARGET.exists() and TARGET.read_text() == source
        print(f"{TARGET.name} is {'fresh' if fresh else 'stale: run this without --check'}")
        return 0 if fresh else 1
    TARGET.write_text(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
