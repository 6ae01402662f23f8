"""The group's state machine: a few registers that hold numbers."""

from __future__ import annotations

import json
from zlib import crc32

KEYS = ("x", "y")


class Register:
    """Applies writes in the order of the log. Two members that applied the same are byte-equal."""

    def __init__(self) -> None:
        self.values: dict[str, int] = dict.fromkeys(KEYS, 0)
        self.digest = 0
        """The digest of everything applied."""

    def apply(self, data: bytes, index: int) -> None:
        """Apply a batch of writes, the entry of the log at that index."""
        for write in data.decode().split():
            key, _, value = write.partition("=")
            self.values[key] = int(value)
        self.digest = crc32(data, self.digest)

    def content(self) -> bytes:
        """Return the whole state, as a snapshot."""
        return json.dumps([self.values, self.digest], sort_keys=True).encode()

    def restore(self, content: bytes) -> None:
        """Take the state from a snapshot; an empty one is that of a new group."""
        self.values, self.digest = json.loads(content) if content else (dict.fromkeys(KEYS, 0), 0)
