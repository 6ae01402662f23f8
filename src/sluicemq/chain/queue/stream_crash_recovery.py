"""A stream whose own code has failed: it is treated like a classic queue (crash_recovery.py).

Its own files have what it has written. A group that was on its way to them may be there or not:
nobody was told that it is. Readers begin anew, at the offset that they ask for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sluicemq.chain.queue.crash_recovery import Crash
from sluicemq.chain.store.messages import StoreStreamFiles
from sluicemq.kernel.cleanup_steps import Step
from sluicemq.queues import commands as c
from sluicemq.storage.stream_log import StreamCommit
from sluicemq.storage.stream_read_back import StreamReadBack

if TYPE_CHECKING:
    from sluicemq.chain.queue.stream import StreamShell


class StreamCrash(Crash[Any]):
    """Stands in for a stream that has failed; checkpoints wait until its `files` are known."""

    queue: StreamShell

    def steps(self, asked: list[object], effects: list[object]) -> list[Step]:
        stream = self.queue
        machine = stream.machine
        cache = self.services.stream_cache
        return [
            self.mark_deleted,
            *(partial(self.take_back, effect) for effect in effects),
            *(partial(self.receive, each) for each in asked),
            self.cancel_consumers,
            *(partial(reader.let_go, cache) for reader in machine.readers.values()),
            partial(cache.forget, stream.id),
            self.let_senders_go,
            self.give_memory_back,
            stream.full.open,
            self.vhost.topology.has_changed,
        ]

    def receive(self, message: object) -> None:
        if isinstance(message, StreamCommit):
            self.was_written(message)
        else:
            super().receive(message)

    def was_written(self, job: StreamCommit) -> None:
        """Drop a group that was on its way to the files. It is read back if it is there; after a
        lack of space it is not tried again."""
        if job.failure is None or job.may_be_tried_again:
            self.services.has_space(job)
        else:
            self.store.fail_storage(str(job.failure))

    def settled(self, message: c.Settle) -> None:
        """Do nothing, because the credit would belong to readers that are gone."""

    @property
    def directory(self) -> str:
        return self.queue.log.directory

    def recovery(self) -> StreamReadBack:
        return StreamReadBack(self.queue.id, self.store.checkpoints.saved_cut)

    def goes_on(self, job: StreamReadBack) -> None:
        assert job.found is not None
        self.files = job.found.files_now
        fresh = self.queue.again(job.found)
        self.vhost.replace(self.queue, fresh)
        files = fresh.stream_files()
        if files is not None:  # it may include a file that the journal has not heard of
            self.store.post(StoreStreamFiles(fresh, files, None, urgent=True))
        end = job.found.next_offset
        text = f"{self.queue.title} goes on at offset {end}"
        self.services.world.log.write("warning", text)

    def stays_down(self, job: StreamReadBack) -> None:
        assert job.found is not None
        self.files = job.found.files_now
