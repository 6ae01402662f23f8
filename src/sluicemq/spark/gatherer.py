"""A process that gathers for a planner: consumers, and the server of chunks for executors.

    python -m sluicemq.spark.gatherer < CALL

On the driver the planner starts it, on an executor a task does (`gatherer_start.py`); CALL has the
planner's address. The planner's requests come as in `planner_link.py`, and have a method each. It
ends when its planner does, and on an executor with the process whose child the task was.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import signal
import sys
import threading
import time
from typing import Any, Final

from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.consumer_groups import ConsumerGroup, PlannedConsumer, in_parts
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.gatherer_start import GathererCall, connect_to_planner
from sluicemq.spark.planner_link import Words
from sluicemq.spark.transfer import ChunkServer

log = logging.getLogger(__name__)

REPORT_S: Final = 0.004
"""The least seconds between two reports."""

IDLE_REPORT_S: Final = 0.05
WRITTEN_S: Final = 1.0
WATCH_S: Final = 0.5


class Ending:
    """Ends this process, which holds a lock on the file at `path` (empty: on none)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._once = threading.Lock()

    def begin(self) -> None:
        """Remove the locked file. Only the first call returns: another thread that calls it blocks
        for good, because by then the file at that path may be the next process's."""
        self._once.acquire()
        if self._path:
            with contextlib.suppress(OSError):  # a sweep removes it when it is old
                os.unlink(self._path)


class Gatherer:
    """Gathers in a process of its own: carries out the planner's requests, one `on_` method each,
    and reports the state of its consumers."""

    def __init__(self, call: GathererCall, ending: Ending) -> None:
        self._ending = ending
        self._news = threading.Condition()
        self._link, host, bind = connect_to_planner(call)
        self._token = call.planner.token
        has_tls = call.options.transfer_tls
        server = ChunkServer(host, bind, call.port, has_tls=has_tls)
        self._server = server
        self._group = ConsumerGroup(call.options, self._news, server)
        self._found: list[GatheredChunk] = []
        """Chunks with copies of messages that the planner fetches for a batch that runs again."""
        self._heard = 0
        """The number of the last request."""
        self._reported: tuple[int, dict[str, Any]] = 0, {}
        self._speaking = threading.Lock()
        """Held from the look at the consumers until their state is sent."""

    def run(self) -> None:
        """Carry out the planner's requests, until it asks to stop or is gone."""
        self._link.send({"token": self._token, "join": self._server.endpoint})
        threading.Thread(target=self._report, daemon=True).start()
        while (words := self._link.receive()) is not None:
            answer = getattr(self, f"on_{words['ask']}")(words)
            self._heard = words["n"]
            self._say({"answer": answer})
            if words["ask"] == "stop":
                return
        self._group.abandon()

    def on_open(self, words: Words) -> None:
        """Open the consumers that the planner has chosen."""
        planned = [PlannedConsumer(*each) for each in words["planned"]]
        self._group.open(planned, words["bytes"])

    def on_take(self, words: Words) -> list[Any]:
        """Hand out chunks of the named consumers, within the planner's limits of rows and
        octets."""
        limits = words["rows"], words["bytes"]
        return [tuple(each) for each in self._group.take(words["consumers"], *limits, words["ids"])]

    def on_acknowledge(self, words: Words) -> None:
        """Acknowledge up to the planner's positions, and return when the acknowledgements are
        written, or after WRITTEN_S seconds."""
        self._group.acknowledge(words["positions"])
        self._group.await_written(time.monotonic() + WRITTEN_S)

    def on_reject(self, words: Words) -> None:
        """Mark rows of a chunk to become dead letters when it is acknowledged."""
        self._group.reject(words["number"], words["rows"])

    def on_drop(self, words: Words) -> None:
        """Stop the named consumers, whose queues are deleted."""
        self._group.drop(words["consumers"])

    def on_resume(self, words: Words) -> None:
        """Have the named consumer fetch messages, if it is parked."""
        for consumer in self._group.consumers:
            if consumer.name == words["consumer"]:
                consumer.resume(words["rows"])

    def on_bound(self, words: Words) -> None:
        self._group.bound(words["bytes"])

    def on_find(self, words: Words) -> list[Any]:
        """Return, for each queue, the ids of the wanted messages that wait, and the number of a
        chunk with copies of these. The copies replace those of the call before."""
        self._server.withdraw(self._found)
        wanted = {(queue, name) for queue, names in words["wanted"] for name in names}
        parts = in_parts(self._group.find(wanted))
        self._found = [chunk for _, chunk in parts]
        return [(chunk.queue, ids, self._server.offer(chunk)) for ids, chunk in parts]

    def on_start_over(self, words: Words) -> None:
        """Give back to the broker all waiting messages, and consume anew."""
        self._group.start_over(words["bytes"])

    def on_beat(self, words: Words) -> None:
        """Do nothing: the planner's beat only renews the lease, and has an answer."""

    def on_stop(self, words: Words) -> None:
        """Write all acknowledgements and close the connections to the broker."""
        self._group.stop()

    def _report(self) -> None:
        """Report the consumers' state when it has changed."""
        try:
            while True:
                with self._news:
                    self._news.wait(IDLE_REPORT_S)
                self._say({})
                time.sleep(REPORT_S)
        except OSError:
            self.end()
        except Exception:
            log.exception("a process that gathers can say no more")
            self.end()

    def _say(self, more: dict[str, Any]) -> None:
        with self._speaking:
            heard = self._heard
            state = {consumer.name: state_of(consumer) for consumer in self._group.consumers}
            if not more and (heard, state) == self._reported:
                return
            self._reported = heard, state
            self._link.send({"n": heard, "state": state, **more})

    def end(self) -> None:
        """End this process at once, without writing anything more; any thread may call it."""
        self._group.abandon()
        self._ending.begin()
        os._exit(0)

    def watch(self, life: int) -> None:
        """End this process when the one that the pidfd `life` refers to ends, which may have
        happened before the call."""
        select.select((life,), (), ())
        self.end()


def state_of(consumer: ConsumerThread) -> list[Any]:
    """Return a consumer's state for the planner, in the order in which `ConsumerView.update` reads
    it."""
    failure = consumer.failure
    settled = consumer.settled  # before lost_rows, which count as settled, too
    return [
        consumer.waiting_rows(),
        consumer.waiting_bytes(),
        consumer.first_rows(),
        consumer.quiet.is_set(),
        consumer.tried.is_set() and not consumer.is_parked,
        consumer.is_parked,
        consumer.overdue_rows,
        consumer.lost_rows,
        consumer.reconnects,
        settled,
        round(consumer.outage.seconds, 1) if consumer.outage.attempts else None,
        None if failure is None else str(failure),
        consumer.is_gone,
    ]


def main() -> None:
    call: GathererCall = pickle.load(sys.stdin.buffer)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ending = Ending(call.lock)
    try:
        gatherer = Gatherer(call, ending)
        if call.lives_with >= 0:
            watch = threading.Thread(target=gatherer.watch, args=(call.lives_with,), daemon=True)
            watch.start()
        gatherer.run()
    finally:
        ending.begin()
    os._exit(0)


if __name__ == "__main__":
    main()
