"""What a fault is: an exception that nobody expected, a mistake of ours, in the turn of an actor.

The scheduler lets no fault out. Each actor says by `Actor.faulted` what one in its turn means: the
end of a connection, of a queue, of a command. What all of them share cannot be given up alone:
where a method of such a part stands in the traceback, the node itself is broken and has to end,
whoever's turn it was. These parts say so by `is_vital`.

A frame of a function that was compiled has no variables, so no `self`. Whose method it is, its
line tells: that of a class in the module's source, which is installed beside what was made of it.
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
    """Tell whether a frame is of a method, and knows of which object."""
    return frame.f_code.co_varnames[:1] == ("self",)


def is_vital(error: BaseException, actor: object) -> bool:
    """Tell whether the error, which came in a turn of this actor, came from a part that the whole
    node shares, so that the process has to end."""
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
    """Return the name of the class whose definition has this line of a source, empty when it is of
    none."""
    for first, last, name in class_lines(file):
        if first <= line <= last:
            return name
    return ""


@cache
def class_lines(file: str) -> list[tuple[int, int, str]]:
    """Return the first and the last line of each class in a source, and its name."""
    tree = ast.parse("".join(linecache.getlines(file)))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [(each.lineno, each.end_lineno or each.lineno, each.name) for each in classes]


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an error for the log, of bounded length."""
    text = "".join(traceback.format_exception(error)).rstrip()
    if len(text) > SAID_MAX:
        text = f"{text[:SAID_FIRST]}\n[...]\n{text[SAID_FIRST - SAID_MAX :]}"
    return text
