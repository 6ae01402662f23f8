"""The broker on a disk that fails under io_uring, whose results strace cannot change:
`python failing_ring.py ERROR FIRST LAST serve ...` is `sluicemq serve ...`, in which the writes by
the ring from the FIRST to the LAST fail. The data may be in the file all the same.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Final

from sluicemq.cli.main import main
from sluicemq.host.uring import WriteRing

NAME: Final = "ring"
"""What stands in place of a call's name."""


def program(error: str, when: str) -> tuple[str, ...]:
    """What stands before `serve`; `when` is N or N..M."""
    first, _, last = when.partition("..")
    return (sys.executable, str(Path(__file__)), error, first, last or first)


def plant(error: str, numbers: range) -> None:
    """Have results with these numbers fail."""
    result = WriteRing.result
    told = 0

    def failing(self: WriteRing) -> int | None:
        nonlocal told
        found = result(self)
        told += found is not None
        is_to_fail = found is not None and told in numbers
        return -getattr(errno, error) if is_to_fail else found

    WriteRing.result = failing  # type: ignore[method-assign]


if __name__ == "__main__":
    _, error, first, last, *sys.argv[1:] = sys.argv
    plant(error, range(int(first), int(last) + 1))
    main()
