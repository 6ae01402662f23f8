"""What a fault is: an exception that nobody expected, a mistake of ours, in the turn of an actor.

The scheduler lets no fault out. Each actor says by `Actor.faulted` what one in its turn means: the
end of a connection, of a queue, of a command. What all of them share cannot be given up alone:
where a method of such a part stands in the traceback, the node itself is broken and has to end,
whoever's turn it was. These parts say so by `is_vital`.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

SAID_MAX: Final = 8000
"""Characters of a traceback that the log gets: of its beginning and of its end, where the cause
is."""
SAID_FIRST: Final = 2000


def objects_at(error: BaseException) -> list[object]:
    """Return the objects whose methods were under way when `error` was raised, the innermost
    last."""
    found: list[object] = []
    entry = error.__traceback__
    while entry is not None:
        frame: FrameType = entry.tb_frame
        if frame.f_code.co_varnames[:1] == ("self",):
            found.append(frame.f_locals.get("self"))
        entry = entry.tb_next
    return found


def is_vital(error: BaseException) -> bool:
    """Tell whether the error came from a part that the whole node shares, so that the process has
    to end."""
    return any(getattr(type(each), "is_vital", False) for each in objects_at(error))


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an error for the log, of bounded length."""
    text = "".join(traceback.format_exception(error)).rstrip()
    if len(text) > SAID_MAX:
        text = f"{text[:SAID_FIRST]}\n[...]\n{text[SAID_FIRST - SAID_MAX :]}"
    return text
