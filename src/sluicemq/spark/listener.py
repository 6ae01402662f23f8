"""The driver's part in acknowledging: it hears when a batch is committed, and tells the source. It
also opens files for the source that only the JVM can (`driver_files.py`).

Registering the source makes the active session listen. Where Spark finds the source by itself, and
in further sessions of the driver, `listen` does.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sluicemq.spark.commits import tell_committed
from sluicemq.spark.driver_files import serve_files

log = logging.getLogger(__name__)

LISTENS: Final = "spark.sluicemq.listens"
"""In the configuration of a session that has a listener."""


class CommitListener(StreamingQueryListener):
    """Tells sources of each batch when its commit is in the checkpoint, so that they acknowledge it
    then and not when the next batch is planned. A query that is stopped between a commit and its
    report reports no more: so at the end the checkpoint is looked at, through Spark, which can read
    it wherever it is."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._checkpoints: dict[str, str] = {}
        """Of the runs of queries, by their id."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        java: Any = self._session
        try:
            query = java._jsparkSession.streams().get(str(event.id)).streamingQuery()
            self._checkpoints[str(event.runId)] = query.resolvedCheckpointRoot()
        except Exception as error:
            log.warning("the checkpoint of query %s is not known: %s", event.id, error)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for source in event.progress.sources:
            tell_committed(source.endOffset)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        checkpoint = self._checkpoints.pop(str(event.runId), None)
        if checkpoint is None:
            return
        try:
            offsets = last_committed(self._session, checkpoint)
        except Exception as error:  # the checkpoint may be gone with its query
            log.info("the checkpoint of query %s cannot be read: %s", event.id, error)
            return
        for line in offsets:
            tell_committed(line)


def last_committed(session: SparkSession, checkpoint: str) -> list[str]:
    """The lines of the offsets of the last committed batch; none when there is no such batch."""
    java: Any = session
    path = java._jvm.org.apache.hadoop.fs.Path
    commits = path(f"{checkpoint}/commits")
    files = commits.getFileSystem(java._jsparkSession.sessionState().newHadoopConf())
    names = [status.getPath().getName() for status in files.listStatus(commits)]
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
    """Hear of the commits of this session's queries, from now on. A driver that cannot is told so;
    its queries acknowledge a batch when they plan the next one."""
    try:
        if session.conf.get(LISTENS, None) is None:
            session.streams.addListener(CommitListener(session))
            session.conf.set(LISTENS, "true")
            serve_files(session)
    except Exception as error:
        log.warning("the driver cannot listen for commits of format amqp: %s", error)
