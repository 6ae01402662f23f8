"""A process that gathers for a planner: consumers, and the server that executors fetch chunks from.

    python -m sluicemq.spark.gatherer < CALL

On the driver the planner starts it, on an executor a task does (`callups.py`); CALL says where the
planner is. What it is asked for is in `links.py` and below, a method each. It ends when its planner
does, and on an executor with the process whose child the task was.
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

from sluicemq.spark.callups import Call, connect_to_planner
from sluicemq.spark.chunks import Chunk
from sluicemq.spark.consumer_groups import ConsumerGroup, Place, in_parts
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.links import Words
from sluicemq.spark.transfer import ChunkServer

log = logging.getLogger(__name__)

REPORT_S: Final = 0.004
"""At least, between two reports of what has come."""

IDLE_REPORT_S: Final = 0.05
WRITTEN_S: Final = 1.0
WATCH_S: Final = 0.5


class Ending:
    """The end of this process, whose lock is on the file at `path` (empty: it has none)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._once = threading.Lock()

    def begin(self) -> None:
        """Remove that file. A second thread that comes here goes no further: the next process may
        have its own file there."""
        self._once.acquire()
        if self._path:
            with contextlib.suppress(OSError):  # it is found to be nobody's when it is old
                os.unlink(self._path)


class Gatherer:
    """See above."""

    def __init__(self, call: Call, ending: Ending) -> None:
        self._ending = ending
        self._news = threading.Condition()
        self._link, host, bind = connect_to_planner(call)
        self._token = call.planner.token
        has_tls = call.options.transfer_tls
        server = ChunkServer(host, bind, call.port, has_tls=has_tls)
        self._server = server
        self._group = ConsumerGroup(call.options, self._news, server)
        self._found: list[Chunk] = []
        """Copies that the planner fetches, for a batch that runs again."""
        self._heard = 0
        """The number of what was asked last."""
        self._reported: tuple[int, dict[str, Any]] = 0, {}
        self._speaking = threading.Lock()
        """Between the look at the consumers and what is said of them."""

    def run(self) -> None:
        """Until the planner says so, or is gone."""
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
        """More consumers."""
        places = [Place(*each) for each in words["places"]]
        self._group.open(places, words["bytes"])

    def on_take(self, words: Words) -> list[Any]:
        """Chunks."""
        limits = words["rows"], words["bytes"]
        return [tuple(each) for each in self._group.take(words["consumers"], *limits, words["ids"])]

    def on_acknowledge(self, words: Words) -> None:
        """Answered when it is written."""
        self._group.acknowledge(words["positions"])
        self._group.await_written(time.monotonic() + WRITTEN_S)

    def on_reject(self, words: Words) -> None:
        """Rows that shall become dead letters."""
        self._group.reject(words["number"], words["rows"])

    def on_drop(self, words: Words) -> None:
        """Consumers whose queues are gone."""
        self._group.drop(words["consumers"])

    def on_resume(self, words: Words) -> None:
        """One consumer."""
        for consumer in self._group.consumers:
            if consumer.name == words["consumer"]:
                consumer.resume(words["rows"])

    def on_bound(self, words: Words) -> None:
        self._group.bound(words["bytes"])

    def on_find(self, words: Words) -> list[Any]:
        """Copies of messages that wait: their ids and the number of the chunk, for each queue."""
        self._server.withdraw(self._found)
        wanted = {(queue, name) for queue, names in words["wanted"] for name in names}
        parts = in_parts(self._group.find(wanted))
        self._found = [chunk for _, chunk in parts]
        return [(chunk.queue, ids, self._server.offer(chunk)) for ids, chunk in parts]

    def on_start_over(self, words: Words) -> None:
        """Give back what waits, and consume anew."""
        self._group.start_over(words["bytes"])

    def on_beat(self, words: Words) -> None:
        """The planner lives."""

    def on_stop(self, words: Words) -> None:
        """Acknowledge what is safe, and go."""
        self._group.stop()

    def _report(self) -> None:
        """Say what has come."""
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
        """At once, from any thread."""
        self._group.abandon()
        self._ending.begin()
        os._exit(0)

    def watch(self, life: int) -> None:
        """End with the process that this is a handle of; it may have ended before we began."""
        select.select((life,), (), ())
        self.end()


def state_of(consumer: ConsumerThread) -> list[Any]:
    """What the planner knows of a consumer; `ConsumerView.update` reads it."""
    failure = consumer.failure
    settled = consumer.settled  # before what is lost, for what is lost meanwhile is settled
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
    call: Call = pickle.load(sys.stdin.buffer)
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
