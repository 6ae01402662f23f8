"""The message store's index in LMDB, whose memory does not grow with the messages.

It is a cache of the message files' contents, made anew at every start, so nothing is ever synced.
Changes gather in a dict first, because a transaction costs as much as twenty changes, and because
most messages are gone before they would be written. The dict also makes a full disk harmless:
changes that cannot be written stay in it until they can.

No MDB_WRITEMAP: a full disk would then be a SIGBUS instead of an error.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Refused
from sluicemq.storage.message_index import MessageIndex

if TYPE_CHECKING:
    import lmdb

    from sluicemq.kernel.world import Log

CHANGES_MAX: Final = 4096
"""The most changes in one transaction, which takes some 3 ms of the broker's time."""
MAP_BYTES: Final = 1 << 40
"""Bytes of addresses, not of disk or memory: room for twenty thousand million messages."""
KEY_BYTES: Final = 8
ENTRY_BYTES: Final = 16


def open_lmdb_index(data_directory: Path, log: Log, kind: str) -> LmdbIndex:
    """Return an empty index for the messages of one kind, in `messages/index.lmdb/<kind>` of the
    data directory; an older one is deleted. Raises Refused without the package lmdb."""
    return LmdbIndex(data_directory / "messages" / "index.lmdb" / kind, log)


class LmdbIndex(MessageIndex):
    """An index of messages in an LMDB environment. Keys are big-endian, so that ids, which grow,
    fill page after page."""

    def __init__(self, directory: Path, log: Log, changes_max: int = CHANGES_MAX) -> None:
        self.directory = directory
        self.log = log
        self.changes_max = changes_max
        self.changes: dict[int, int] = {}
        """Changes that are not written yet; 0 where an entry is to be deleted."""
        self.flush_at = changes_max
        self.environment: lmdb.Environment
        self.reader: lmdb.Transaction
        self._open()

    def _open(self) -> None:
        try:
            import lmdb  # noqa: PLC0415 (optional)
        except ImportError:
            needed = "message_store.index = lmdb needs a package: pip install 'sluicemq[lmdb]'"
            raise Refused(needed) from None
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.environment = lmdb.open(
            str(self.directory),
            map_size=MAP_BYTES,
            sync=False,
            metasync=False,
            lock=False,
            readahead=False,
            meminit=False,
        )
        self.reader = self.environment.begin()
        self.error = lmdb.Error

    def get(self, message_id: int) -> int:
        """Return the place of a message, 0 when there is none; about a microsecond when it is not
        among the changes."""
        entry = self.changes.get(message_id)
        if entry is not None:
            return entry
        value = self.reader.get(message_id.to_bytes(KEY_BYTES, "big"))
        return 0 if value is None else int.from_bytes(value, "little")

    def get_many(self, ids: Sequence[int]) -> list[int]:
        return [self.get(message_id) for message_id in ids]

    def put(self, message_id: int, entry: int) -> None:
        self.changes[message_id] = entry
        if len(self.changes) >= self.flush_at:
            self.flush()

    def put_many(self, ids: Sequence[int], entries: Sequence[int]) -> None:
        self.changes.update(zip(ids, entries, strict=True))
        if len(self.changes) >= self.flush_at:
            self.flush()

    def delete_many(self, ids: Iterable[int]) -> None:
        self.changes.update(dict.fromkeys(ids, 0))
        if len(self.changes) >= self.flush_at:
            self.flush()

    def clear(self) -> None:
        self.close()
        self.changes = {}
        self._open()

    def count(self) -> int:
        """Count the entries. Changes that are not written are looked up one by one, which is slow:
        few callers need the count."""
        stored: int = self.environment.stat()["entries"]
        for message_id, entry in self.changes.items():
            known = self.reader.get(message_id.to_bytes(KEY_BYTES, "big")) is not None
            stored += (entry != 0) - known
        return stored

    def close(self) -> None:
        self.reader.abort()
        self.environment.close()

    def flush(self) -> None:
        """Write all changes in one transaction. When that fails they are kept, and the next attempt
        comes after as many new ones."""
        changes = sorted(self.changes.items())
        self.reader.abort()  # an open reader keeps the pages that it sees from being reused
        try:
            with self.environment.begin(write=True) as transaction:
                cursor = transaction.cursor()
                cursor.putmulti(
                    [
                        (
                            message_id.to_bytes(KEY_BYTES, "big"),
                            entry.to_bytes(ENTRY_BYTES, "little"),
                        )
                        for message_id, entry in changes
                        if entry
                    ]
                )
                for message_id, entry in changes:
                    if not entry:
                        transaction.delete(message_id.to_bytes(KEY_BYTES, "big"))
        except self.error as error:
            if self.flush_at == self.changes_max:
                text = (
                    f"cannot write the message store's index, it stays in memory for now: {error}"
                )
                self.log.write("warning", text)
            self.flush_at = len(changes) + self.changes_max
        else:
            self.changes = {}
            self.flush_at = self.changes_max
        self.reader = self.environment.begin()
