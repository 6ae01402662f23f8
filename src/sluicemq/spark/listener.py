"""The driver's part in acknowledging: it learns when a batch is committed, and tells the source. It
also opens files for the source that only the JVM can open (`driver_files.py`).

Registering the source makes the active session listen. When Spark finds the source by itself, and
in further sessions of the driver, call `listen`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sluicemq.spark.commits import LAST_WORD_S, listener_of, tell_committed
from sluicemq.spark.driver_files import serve_files
from sluicemq.spark.driver_lines import LineServer, jvm_process

log = logging.getLogger(__name__)

LISTENS: Final = "spark.sluicemq.listens"
"""The key that a session's configuration has once a listener was added to it."""


class QueryRun(NamedTuple):
    """A run of a streaming query: the place of its checkpoint, and the offsets of the last batch
    that was planned before the run, a line each."""

    checkpoint: str
    before: list[str]


class CommitListener(StreamingQueryListener):
    """Tells sources of each batch when its commit is in the checkpoint, so that they acknowledge it
    then and not when the next batch is planned. A query that is stopped between a commit and its
    report never reports it, so at the end Spark reads the checkpoint, wherever it is. Spark ends a
    planner before it reports the end of the query; the planner then asks for the `last_word`, and
    waits for the driver."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._ends = threading.Condition()
        self._runs: dict[str, QueryRun] = {}
        """The runs whose end has not been reported, by their id."""

    def last_word(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer a planner that Spark has ended: return the offsets of the last commit of its
        query, as lines of JSON. Waits for the end of the query first, LAST_WORD_S seconds at most.
        There are none when this listener does not, or no longer, have the query."""
        found: list[str] = []
        for name, run in list(self._runs.items()):
            if has_planned(self._session, run, question["session"]):
                self._await_end(name)
                found += self._last_committed(run.checkpoint)
        return {"offsets": found}

    def _await_end(self, name: str) -> None:
        with self._ends:
            self._ends.wait_for(lambda: name not in self._runs, LAST_WORD_S)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        java: Any = self._session
        try:
            query = java._jsparkSession.streams().get(str(event.id)).streamingQuery()
            checkpoint: str = query.resolvedCheckpointRoot()
        except Exception as error:
            log.warning("the checkpoint of query %s is not known: %s", event.id, error)
            return
        try:
            before = lines_of(self._session, checkpoint, "offsets")
        except Exception:  # the log does not exist before the first batch
            before = []
        self._runs[str(event.runId)] = QueryRun(checkpoint, before)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for source in event.progress.sources:
            tell_committed(source.endOffset)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        run = self._runs.get(str(event.runId))
        if run is None:
            return
        for line in self._last_committed(run.checkpoint):
            tell_committed(line)
        with self._ends:
            del self._runs[str(event.runId)]
            self._ends.notify_all()

    def _last_committed(self, checkpoint: str) -> list[str]:
        try:
            return lines_of(self._session, checkpoint, "commits")
        except Exception as error:  # the checkpoint may have been deleted with its query
            log.info("the checkpoint %s cannot be read: %s", checkpoint, error)
            return []


def has_planned(session: SparkSession, run: QueryRun, planner: str) -> bool:
    """Return whether the planner, named by its session, planned the last batch of this run. Also
    true when the checkpoint is gone: Spark deletes a temporary one when its query ends."""
    try:
        lines = lines_of(session, run.checkpoint, "offsets")
        return lines != run.before and any(planner in line for line in lines)
    except Exception:
        java: Any = session
        path = java._jvm.org.apache.hadoop.fs.Path(run.checkpoint)
        files = path.getFileSystem(java._jsparkSession.sessionState().newHadoopConf())
        return not files.exists(path)


def lines_of(session: SparkSession, checkpoint: str, log_name: str) -> list[str]:
    """Return the lines of the offset file of the last batch in `log_name` of the checkpoint, which
    is `offsets` or `commits`. The list is empty when there is no batch; errors of the JVM are
    raised as they are."""
    java: Any = session
    path = java._jvm.org.apache.hadoop.fs.Path
    batches = path(f"{checkpoint}/{log_name}")
    files = batches.getFileSystem(java._jsparkSession.sessionState().newHadoopConf())
    names = [status.getPath().getName() for status in files.listStatus(batches)]
    latest = max((int(name) for name in names if name.isdigit()), default=-1)
    if latest < 0:
        return []
    stream = files.open(path(f"{checkpoint}/offsets/{latest}"))
    try:
        text: str = java._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return text.splitlines()


def listen(session: SparkSession) -> None:
    """Listen for commits of this session's queries from now on. A driver that cannot, or a client
    of Spark Connect, logs a warning; its queries then acknowledge a batch only when they plan the
    next one."""
    if not isinstance(session, SparkSession):
        log.warning(
            "format amqp hears of no commits through Spark Connect: give the source the query's"
            " checkpointLocation too, or messages are acknowledged when the next batch is planned"
        )
        return
    try:
        if session.conf.get(LISTENS, None) is None:
            java: Any = session
            listener = CommitListener(session)
            LineServer(listener_of(jvm_process(java._jvm), uuid.uuid4().hex), listener.last_word)
            session.streams.addListener(listener)
            session.conf.set(LISTENS, "true")
            serve_files(session)
    except Exception as error:
        log.warning("the driver cannot listen for commits of format amqp: %s", error)
