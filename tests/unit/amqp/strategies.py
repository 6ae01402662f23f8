"""Hypothesis strategies for what AMQP can carry: values, tables, methods, properties."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from hypothesis import strategies as st

from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import ALL_METHODS
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import Timestamp

ROOT = Path(__file__).resolve().parents[3]

texts = st.text(max_size=60)
raw_texts = st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
short_texts = st.text(max_size=255).filter(lambda text: len(text.encode()) <= 255)
octets = st.integers(0, 2**8 - 1)
shorts = st.integers(0, 2**16 - 1)
longs = st.integers(0, 2**32 - 1)
longlongs = st.integers(0, 2**64 - 1)
decimals = st.builds(
    lambda value, scale: Decimal((0, tuple(map(int, str(value))), -scale)), longs, octets
)
plain_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    texts,
    raw_texts,
    st.binary(max_size=60),
    decimals,
    st.builds(Timestamp, longlongs),
)
values = st.recursive(
    plain_values,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(raw_texts, inner, max_size=5)
    ),
    max_leaves=12,
)
tables = st.dictionaries(raw_texts, values, max_size=6)

FIELDS = {
    "octet": octets,
    "short": shorts,
    "long": longs,
    "longlong": longlongs,
    "bit": st.booleans(),
    "shortstr": short_texts,
    "longstr": st.binary(max_size=80),
    "table": tables,
}


def spoil(raw: bytes, place: int, bits: int) -> bytes:
    """`raw` with one octet changed."""
    spoiled = bytearray(raw)
    if spoiled:
        spoiled[place % len(raw)] ^= bits
    return bytes(spoiled)


places = st.integers(0, 2**16)
bit_patterns = st.integers(1, 255)


def load_generator() -> ModuleType:
    """tools/generate_methods.py as a module."""
    path = ROOT / "tools" / "generate_methods.py"
    spec = importlib.util.spec_from_file_location("generate_methods", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _of(make: Callable[..., Method], row: object) -> st.SearchStrategy[Method]:
    fields = row.kept  # type: ignore[attr-defined]
    return st.builds(make, **{field.name: FIELDS[field.kind] for field in fields})


methods = st.one_of(
    [_of(make, row) for make, row in zip(ALL_METHODS, load_generator().read_table(), strict=True)]
)

properties = st.builds(
    BasicProperties,
    content_type=st.none() | short_texts,
    content_encoding=st.none() | short_texts,
    headers=st.none() | tables,
    delivery_mode=st.none() | octets,
    priority=st.none() | octets,
    correlation_id=st.none() | raw_texts,
    reply_to=st.none() | short_texts,
    expiration=st.none() | short_texts,
    message_id=st.none() | raw_texts,
    timestamp=st.none() | longlongs,
    type=st.none() | short_texts,
    user_id=st.none() | short_texts,
    app_id=st.none() | short_texts,
    cluster_id=st.none() | short_texts,
)
