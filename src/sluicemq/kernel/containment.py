"""Faults: unexpected exceptions, that is mistakes of ours, in the turn of an actor.

No fault leaves the scheduler. Each actor decides by `Actor.faulted` what a fault in its turn ends:
a connection, a queue, a command. A part that all of them share cannot be given up alone: if a
method of such a part is in the traceback, the node itself is broken and has to end, whoever's turn
it was. These parts are marked by `is_vital`.

The frame of a compiled function has no variables, so no `self`. Its line tells which class the
method belongs to, by the module's source, which is installed beside the compiled module.
"""

from __future__ import annotations

import ast
import linecache
import traceback
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

SAID_MAX: Final = 8000
"""Characters of a traceback that the log gets: of its beginning and of its end, where the cause
is."""
SAID_FIRST: Final = 2000


COMPILED: Final = tuple(EXTENSION_SUFFIXES)
"""How the names of files end that were compiled."""


def objects_at(error: BaseException) -> list[object]:
    """Return the objects whose methods were under way when `error` was raised, the innermost last;
    without those of compiled methods."""
    found: list[object] = []
    entry = error.__traceback__
    while entry is not None:
        if has_self(entry.tb_frame):
            found.append(entry.tb_frame.f_locals.get("self"))
        entry = entry.tb_next
    return found


def has_self(frame: FrameType) -> bool:
    """Tell whether a frame belongs to a method whose object is known."""
    return frame.f_code.co_varnames[:1] == ("self",)


def is_vital(error: BaseException, actor: object) -> bool:
    """Tell whether the error, raised in a turn of this actor, came from a part that the whole node
    shares, so that the process has to end."""
    return any(getattr(each, "is_vital", False) for each in classes_at(error, actor))


def classes_at(error: BaseException, actor: object) -> list[type]:
    """Return the classes whose methods were under way when `error` was raised in a turn of this
    actor, the innermost last. A compiled method of a base of the actor's counts as one of its
    own."""
    found: list[type] = []
    entry = error.__traceback__
    while entry is not None:
        frame = entry.tb_frame
        if has_self(frame):
            found.append(type(frame.f_locals.get("self")))
        elif str(frame.f_globals.get("__file__")).endswith(COMPILED):
            name = class_name_at(frame.f_code.co_filename, entry.tb_lineno)
            owner = frame.f_globals.get(name)
            if isinstance(owner, type):
                found.append(type(actor) if isinstance(actor, owner) else owner)
        entry = entry.tb_next
    return found


def class_name_at(file: str, line: int) -> str:
    """Return the name of the class whose definition includes this line of a source; "" when there
    is none."""
    for first, last, name in class_lines(file):
        if first <= line <= last:
            return name
    return ""


@cache
def class_lines(file: str) -> list[tuple[int, int, str]]:
    """Return the first line, the last line and the name of each class in a source."""
    tree = ast.parse("".join(linecache.getlines(file)))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [(each.lineno, each.end_lineno or each.lineno, each.name) for each in classes]


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an error for the log, of bounded length."""
    text = "".join(traceback.format_exception(error)).rstrip()
    if len(text) > SAID_MAX:
        text = f"{text[:SAID_FIRST]}\n[...]\n{text[SAID_FIRST - SAID_MAX :]}"
    return text
