"""What /proc says of processes."""

from __future__ import annotations

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The processes that this one has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    texts = ((task / "children").read_text() for task in tasks)
    return [int(each) for text in texts for each in text.split()]
