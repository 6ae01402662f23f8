"""Tells a directory that has lost its checkpoints from a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sluicemq.storage.checkpoint import DIRECTORY as CHECKPOINT
from sluicemq.storage.checkpoint import UNFINISHED
from sluicemq.storage.journal import DIRECTORY as JOURNAL
from sluicemq.storage.raft.segment_file import RAFT
from sluicemq.storage.segments import QUEUES
from sluicemq.storage.stream_segment import STREAMS

if TYPE_CHECKING:
    from sluicemq.kernel.disk import Files

MESSAGES: Final = "messages/persistent"


def left_over(files: Files) -> Iterator[str]:
    """Yield the paths of files that a broker of this directory has made and that may hold
    something."""
    directories = [CHECKPOINT, JOURNAL, MESSAGES]
    for parent in (QUEUES, STREAMS, RAFT):
        directories += [f"{parent}/{name}" for name in files.names(parent)]
    for directory in directories:
        if files.is_directory(directory):
            for name in files.names(directory):
                path = f"{directory}/{name}"
                if not name.endswith(UNFINISHED) and not files.is_directory(path):
                    yield path
