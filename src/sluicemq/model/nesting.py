"""How deep values may be nested, given that recursive functions read them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from sluicemq.limits import JSON_DEPTH_MAX

TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
KEPT_DEPTH: Final = JSON_DEPTH_MAX + 8
"""Of all definitions: a value as deep as may be, in a record in a list of them."""
CHANGE_DEPTH: Final = JSON_DEPTH_MAX + 4
"""Of a change of the definitions, so that what is left of it is flat enough among all of them."""


def is_flat_enough(value: object, depth: int = JSON_DEPTH_MAX) -> bool:
    """Tell whether at most `depth` objects and lists are inside one another."""
    layer = [value]
    for _ in range(depth):
        within: list[object] = []
        for each in layer:
            if isinstance(each, dict):
                within += each.values()
            elif isinstance(each, list):
                within += each
        layer = within
        if not layer:
            return True
    return not any(isinstance(each, dict | list) for each in layer)


def read_kept(data: bytes, depth: int = KEPT_DEPTH) -> tuple[Any, bool]:
    """Return the value of JSON that a broker has written, and whether something in it was cut off.
    An older broker may have accepted deeper nesting than this one does, which must not keep this
    one from starting for ever. Raises ValueError when it is not JSON."""
    try:
        value = json.loads(data)
        if is_flat_enough(value, depth):
            return value, False
    except RecursionError:
        pass  # so it is deep
    return json.loads(shallow(data, depth)), True


def shallow(data: bytes, depth_max: int) -> bytes:
    """Return the JSON with null in place of each object and list inside more than `depth_max`
    others."""
    parts: list[bytes] = []
    depth = start = 0
    for token in TOKENS.finditer(data):
        character = token[0]
        if character in b"[{":
            depth += 1
            if depth == depth_max + 1:
                parts += [data[start : token.start()], b"null"]
        elif character in b"]}":
            if depth == depth_max + 1:
                start = token.end()
            depth -= 1
    return b"".join([*parts, data[start:]])
