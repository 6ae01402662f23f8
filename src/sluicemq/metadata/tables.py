"""What is declared durable, as files have it: the tables of a checkpoint, and the changes of the
journal over them.

They are read without a verdict. A checkpoint may be newer than the first changes that are read over
it, so these need not fit what is there: an exchange is deleted that is gone already, something is
bound whose deletion comes later. What is left over at the end goes (`drop_loose_bindings`). All of
them together are the JSON object that goes to checkpoints:

    {"vhosts": [...], "users": [...], "permissions": [...], and so on for all RECORDS,
     "exchanges": [...], "queues": [...], "bindings": [...]}

with what `codec.py` has for one of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sluicemq.errors import Corrupt
from sluicemq.metadata.changes import (
    SOURCE,
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteRecord,
    Together,
    Unbind,
    UpsertRecord,
)
from sluicemq.metadata.codec import (
    BROKEN,
    RECORDS,
    change_of,
    decode,
    encoded_tables,
    fields_of,
    queue_fields,
)
from sluicemq.metadata.record_tables import RecordTables
from sluicemq.model.nesting import read_kept
from sluicemq.model.queue_types import TYPES
from sluicemq.model.vhosts import VhostDefinition

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.model.definitions import (
        BindingDefinition,
        ExchangeDefinition,
        Identity,
        QueueDefinition,
    )
    from sluicemq.model.record import Key

End: TypeAlias = tuple[str, str, str]
"""An end of a binding: the virtual host; SOURCE, or what kind of thing it leads to; the name."""


class DurableTables(RecordTables):
    """The tables of a checkpoint, to which changes of the journal can be added."""

    is_vital = True
    """A fault in here ends the node (kernel/containment.py)."""

    def __init__(self, encoded: bytes = b"") -> None:
        super().__init__()
        self.exchanges: dict[tuple[str, str], ExchangeDefinition] = {}
        self.queues: dict[int, QueueDefinition] = {}
        self.homes: dict[int, int] = {}
        """The nodes that have the messages of queues, by the ids of these; a queue of a node that
        is alone is not in it."""
        self.members: dict[int, tuple[int, ...]] = {}
        """The members of quorum queues in a cluster, by the ids of these; in `leaving` those that
        are to go."""
        self.leaving: dict[int, tuple[int, ...]] = {}
        self.born: dict[int, tuple[int, ...]] = {}
        """Those that the groups of queues began with, if they are others than their members."""
        self.bindings: dict[Identity, BindingDefinition] = {}
        self._ends: dict[End, dict[Identity, None]] = {}
        """The bindings that go with an exchange or a queue."""
        self.cut_off = 0
        """How often something was nested too deep, and was cut off in reading it."""
        if encoded:
            self._read(encoded)

    def _read(self, encoded: bytes) -> None:
        try:
            all_of_them, is_cut = read_kept(encoded)
            self.cut_off += is_cut
            for record in RECORDS:
                for each in all_of_them.get(record.TABLE, ()):
                    self.take(UpsertRecord(record.of(each)))
            for table, kind in TABLES.items():
                for each in all_of_them[table]:
                    self.take(change_of(kind, each))
        except BROKEN as error:
            raise Corrupt(f"definitions that do not parse: {error}") from error

    def encode(self) -> bytes:
        """Return all tables as the JSON object of a checkpoint."""
        tables: list[tuple[str, list[Any], Callable[[Any], Any]]] = [
            *record_rows(self),
            ("exchanges", [*self.exchanges.values()], fields_of),
            ("queues", [*self.queues.items()], self._queue_row),
            ("bindings", [*self.bindings.values()], fields_of),
        ]
        return b"".join(encoded_tables(tables))

    def apply(self, change: bytes) -> None:
        """One change, from the journal. Corrupt when it is none."""
        changes, is_cut = decode(change)
        self.cut_off += is_cut
        try:
            for each in changes:
                self.take(each)
        except BROKEN as error:
            raise Corrupt(f"a change of the definitions that makes no sense: {error}") from error

    def take(self, change: Change) -> None:
        """One change, whatever there is. ValueError for one that no journal has."""
        if isinstance(change, UpsertRecord):
            record = change.record
            self.records[record.KIND][record.key] = record
        elif isinstance(change, DeleteRecord):
            self._drop(change.kind, change.key)
        elif isinstance(change, DeclareExchange):
            exchange = change.definition
            self.exchanges[exchange.vhost, exchange.name] = exchange
        elif isinstance(change, DeclareQueue):
            self._declare_queue(change)
        elif isinstance(change, Bind):
            self._bind(change.binding)
        elif isinstance(change, Unbind):
            self._unbind(change.binding.identity)
        elif isinstance(change, DeleteExchange):
            self._drop_exchange(change.vhost, change.name)
        elif isinstance(change, Together):
            for each in change.changes:
                self.take(each)
        else:
            raise ValueError(f"{type(change).__name__} is in no journal")

    def _queue_row(self, row: tuple[int, QueueDefinition]) -> dict[str, Any]:
        queue_id, queue = row
        home, members = self.homes.get(queue_id, 0), self.members.get(queue_id, ())
        leaving, born = self.leaving.get(queue_id, ()), self.born.get(queue_id, ())
        return queue_fields(queue_id, queue, home, members, leaving, born)

    def _declare_queue(self, change: DeclareQueue) -> None:
        self.queues[change.queue_id] = change.definition
        if change.home:
            self.homes[change.queue_id] = change.home
        if change.members:
            self.members[change.queue_id] = change.members
        if change.leaving:
            self.leaving[change.queue_id] = change.leaving
        if change.born:
            self.born[change.queue_id] = change.born

    def _drop(self, kind: str, key: Key) -> None:
        """With what hangs on it. Queues have been deleted before their virtual host."""
        self.remove_record(kind, key)
        if kind == VhostDefinition.KIND:
            for identity in [each for each in self.bindings if each[0] == key]:
                self._unbind(identity)
            for place in [each for each in self.exchanges if each[0] == key]:
                del self.exchanges[place]

    def in_stream_files(self) -> dict[int, QueueDefinition]:
        """Return the queues whose messages are in the files of a stream, by id. A type that this
        version does not know has none that it could read."""
        return {
            queue_id: queue
            for queue_id, queue in self.queues.items()
            if queue.type in TYPES and TYPES[queue.type].has_stream_files
        }

    def delete_queue(self, queue_id: int) -> None:
        """Delete the queue of this id with its bindings; that there is none is fine."""
        queue = self.queues.pop(queue_id, None)
        self.homes.pop(queue_id, None)
        self.members.pop(queue_id, None)
        self.leaving.pop(queue_id, None)
        self.born.pop(queue_id, None)
        if queue is not None:
            self._release((queue.vhost, "queue", queue.name))

    def drop_loose_bindings(self) -> None:
        """Those of a queue that is not there. When a snapshot knows already that it was deleted,
        an older change of the journal may still bind it."""
        known = {(queue.vhost, queue.name) for queue in self.queues.values()}
        for identity, binding in [*self.bindings.items()]:
            place = binding.vhost, binding.destination
            if binding.destination_type == "queue" and place not in known:
                self._unbind(identity)

    def _drop_exchange(self, vhost: str, name: str) -> None:
        self.exchanges.pop((vhost, name), None)
        self._release((vhost, SOURCE, name))
        self._release((vhost, "exchange", name))

    def _bind(self, binding: BindingDefinition) -> None:
        self.bindings[binding.identity] = binding
        for end in ends_of(binding):
            self._ends.setdefault(end, {})[binding.identity] = None

    def _unbind(self, identity: Identity) -> None:
        """It need not be there."""
        binding = self.bindings.pop(identity, None)
        for end in ends_of(binding) if binding is not None else ():
            others = self._ends[end]
            del others[identity]
            if not others:
                del self._ends[end]

    def _release(self, end: End) -> None:
        """The bindings of an exchange or a queue that is no more."""
        for identity in [*self._ends.get(end, ())]:
            self._unbind(identity)


TABLES: Final = {"exchanges": "exchange", "queues": "queue", "bindings": "binding"}
"""The tables that are no records, each with the word that a change uses for one row."""


def record_rows(
    tables: RecordTables,
) -> list[tuple[str, list[Any], Callable[[Any], Any]]]:
    """The rows of all kinds of records, and how one is JSON; for `encoded_tables`."""
    return [
        (record.TABLE, [*tables.records[record.KIND].values()], record.as_json)
        for record in RECORDS
    ]


def ends_of(binding: BindingDefinition) -> tuple[End, End]:
    """Return the two things that the binding goes with when one of them is deleted."""
    vhost = binding.vhost
    target = vhost, binding.destination_type, binding.destination
    return (vhost, SOURCE, binding.source), target
