"""The messages of queues and channels to the message store, its answers, and the interface of its
clients.

    StoreWrite, StorePaged, StoreRemove, StoreRead       of queues, about their messages
    StoreDefinition, StoreQueueDeleted                   definitions, and deleted queues
    StoreStreamFiles                                     of streams: which files must exist
    WhenSafe                                             a question: is all before it durable?
    Written, BodiesRead, Collect, Forgotten, Agreed      the answers
    Flush, Flushed                                       for a checkpoint
    TryAgain                                             the disk was full

What the owners of Raft members hear is in raft_answers.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sluicemq.chain.flow_actor import FlowActor
from sluicemq.chain.store.group_commit import Append
from sluicemq.compiling import mypyc_attr
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.storage.entries import (
    encode_definition,
    encode_queue_deleted,
    encode_stream_files,
)

if TYPE_CHECKING:
    from sluicemq.flow.credit import Inflow
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import DiskJob
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.effects import Deleted, Receipt
    from sluicemq.storage.entries import StreamFiles


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreClient(FlowActor):
    """A queue, as the message store and checkpoints see it. `id` is its number in files, `strand`
    that of the disk in which its own jobs run, `title` names it for people."""

    id: int
    strand: int
    title: str
    has_state: ClassVar[bool] = True
    """Does a checkpoint have a state of it? A client without one has files of its own."""

    @property
    def is_durable(self) -> bool:
        """Tell whether the queue survives a restart."""
        raise NotImplementedError

    @property
    def is_deleted(self) -> bool:
        """Tell whether the queue is deleted, so that nothing is recorded of it any more."""
        raise NotImplementedError

    def checkpoint_state(self) -> bytes:
        """Return the queue's part of a checkpoint, when the journal has everything from the queue.
        Asked only of queues that were touched."""
        raise NotImplementedError

    def dirty_files(self) -> tuple[str, list[str]]:
        """Return the directory of its own files, and those written since the last call, which have
        to be synced."""
        raise NotImplementedError

    def stream_files(self) -> StreamFiles | None:
        """Return which of its own files must exist after a restart; None when there are none, as
        with most queues."""
        return None


class StoreWrite:
    """Persistent messages of `queue`, at consecutive positions from `position` on. `inflow` is the
    store's half of their link; `expiry` is as Chunk has it; `receipt` is None when nobody waits."""

    __slots__ = ("batch", "cancelled", "expiry", "inflow", "position", "queue", "receipt")

    def __init__(
        self,
        queue: StoreClient,
        batch: Batch,
        receipt: Receipt | None,
        position: int,
        inflow: Inflow,
        expiry: int = 0,
    ) -> None:
        self.queue = queue
        self.batch = batch
        self.receipt = receipt
        self.position = position
        self.inflow = inflow
        self.expiry = expiry
        self.cancelled = False


class StorePaged:
    """Transient bodies that were paged out, to be written without anybody waiting for that."""

    __slots__ = ("chunk", "inflow")

    def __init__(self, chunk: Chunk, inflow: Inflow) -> None:
        self.chunk = chunk
        self.inflow = inflow


class StoreRemove:
    """Messages that have left a queue. `ranges` and `indexed` are positions that must be remembered
    over a restart, with `delivered`: the first are only in the journal, the others in the queue's
    index. `persistent` and `transient` are ids of bodies. `empty` goes back to the queue in a
    `Collect` when all this is durable."""

    __slots__ = ("delivered", "empty", "indexed", "persistent", "queue", "ranges", "transient")

    def __init__(self, queue: StoreClient, delivered: int) -> None:
        self.queue = queue
        self.ranges: list[range] = []
        self.indexed: list[range] = []
        self.persistent: list[range] = []
        self.transient: list[range] = []
        self.delivered = delivered
        self.empty: list[tuple[int, int]] = []


class StoreRead:
    """A request for the bodies of a chunk; `tries` is how often the disk has failed to read
    them."""

    __slots__ = ("chunk", "queue", "tries")

    def __init__(self, queue: StoreClient, chunk: Chunk) -> None:
        self.queue = queue
        self.chunk = chunk
        self.tries = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class WhenSafe(Append):
    """A question: `asker`, if not None, gets Agreed when everything that the message store got
    before it is durable, or an Agreed with the reason why it never will be."""

    __slots__ = ("asker",)

    is_last = True

    def __init__(self, asker: Actor | None) -> None:
        super().__init__(urgent=asker is not None)
        self.asker = asker

    def appended(self) -> None:
        if self.asker is not None:
            self.asker.post(Agreed())

    def refused(self, reason: str) -> None:
        if self.asker is not None:
            self.asker.post(Agreed(NoAgreement(reason)))


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreDefinition(WhenSafe):
    """An encoded change of definitions; empty, if `asker` waits for others that are on
    their way.
    """

    __slots__ = ("change",)

    is_declaration = True
    is_last = False

    def __init__(self, change: bytes, asker: Actor | None) -> None:
        super().__init__(asker)
        self.change = change

    def entries(self, parts: list[bytes]) -> None:
        if self.change:
            encode_definition(parts, self.change)


class StoreQueueDeleted(Append):
    """Tells that a durable queue is deleted. When that is durable `answer` goes to its channel, if
    any, and the queue gets `Forgotten`. No later declaration is durable before it, and entries of
    the queue in later groups are ignored."""

    __slots__ = ("answer", "channel", "queue")

    is_declaration = True

    def __init__(self, queue: StoreClient, answer: Deleted) -> None:
        super().__init__(urgent=answer.channel is not None)
        self.queue = queue
        self.answer = answer
        self.channel = answer.channel

    def entries(self, parts: list[bytes]) -> None:
        encode_queue_deleted(parts, self.queue.id)

    def appended(self) -> None:
        self.queue.post(Forgotten())
        if self.channel is not None:
            self.channel.post(self.answer)

    def refused(self, reason: str) -> None:
        if self.channel is not None:
            self.channel.post(Agreed(NoAgreement(reason)))


class StoreStreamFiles(Append):
    """Which files of a stream must exist from now on. When that is durable this goes back to the
    stream, with the `job` it came for, None if there was none; `urgent` tells that confirms wait
    for it."""

    __slots__ = ("files", "job", "queue")

    def __init__(
        self, queue: StoreClient, files: StreamFiles, job: DiskJob | None, urgent: bool = False
    ) -> None:
        super().__init__(urgent)
        self.queue = queue
        self.files = files
        self.job = job

    def entries(self, parts: list[bytes]) -> None:
        encode_stream_files(parts, self.files)

    def appended(self) -> None:
        self.queue.post(self)


class Written:
    """Sent to a queue: the publishes of these receipts are durable, or have left it again."""

    __slots__ = ("receipts",)

    def __init__(self, receipts: list[Receipt]) -> None:
        self.receipts = receipts


class Forgotten:
    """Sent to a queue: it is not recovered after a restart any more, so its files may
    be deleted.
    """

    __slots__ = ()


class BodiesRead:
    """Sent to a queue: the bodies of a chunk that were found, by their ids."""

    __slots__ = ("chunk", "contents")

    def __init__(self, chunk: Chunk, contents: dict[int, bytes]) -> None:
        self.chunk = chunk
        self.contents = contents


class Collect:
    """Sent to a queue: its earlier acknowledgements are durable, so that the segments in `empty`,
    which had no message left by then, may be deleted."""

    __slots__ = ("empty",)

    def __init__(self, empty: list[tuple[int, int]]) -> None:
        self.empty = empty


class Flush:
    """Sent to a queue, which has to write living messages below position `upto` into segments and
    answer `Flushed`."""

    __slots__ = ("upto",)

    def __init__(self, upto: int) -> None:
        self.upto = upto


class Flushed:
    """Sent by a queue when it has flushed, or is deleted."""

    __slots__ = ("queue",)

    def __init__(self, queue: StoreClient) -> None:
        self.queue = queue


class TryAgain:
    """A timer's message that the disk may have space for `job` now."""

    __slots__ = ("job",)

    def __init__(self, job: DiskJob) -> None:
        self.job = job
