"""The options of `format("amqp")`, declared once: the checks, the errors and the table in
docs/spark-amqp.md (`tools/generate_spark_options.py`) derive from them. `Options` parses a user's
options.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sluicemq.client.address import Address
from sluicemq.client.tls import TlsFiles
from sluicemq.errors import Refused
from sluicemq.spark.option_declaration import (
    DEAD_LETTER,
    FAIL,
    FIRST,
    NEXT,
    OptionDeclaration,
    Side,
)

MIB: Final = 1024 * 1024
ROWS_PER_BATCH: Final = 100_000


def option(name: str, kind: str, default: Any, side: Side, words: str, **more: Any) -> Any:
    """Return a dataclass field for an option of `OptionValues`, with its declaration."""
    declared = OptionDeclaration(name=name, kind=kind, side=side, help=words, **more)  # type: ignore[arg-type]
    return field(default=default, repr=kind != "secret", metadata={"declared": declared})


@dataclass(frozen=True, kw_only=True)
class OptionValues:
    """The values of all options, and others that follow from them."""

    uris: tuple[str, ...] = option(
        "uris",
        "list",
        ("amqp://guest:guest@127.0.0.1:5672/",),
        "both",
        "The brokers, `amqp://user:password@host:port/vhost` or `amqps://...`; tried in order until"
        " one answers. `uri` is the same.",
    )
    user: str = option(
        "user",
        "text",
        "",
        "both",
        "Who connects, instead of the user in `uris`.",
        default_words="the one in `uris`",
    )
    password: str = option(
        "password",
        "secret",
        "",
        "both",
        "Their password, instead of the one in `uris`: Spark hides an option of this name in plans,"
        " in its log and on its pages.",
        default_words="the one in `uris`",
    )
    password_file: str = option(
        "passwordFile",
        "text",
        "",
        "both",
        "A file with the password, without the newline at its end. It is read for each connection,"
        " on the driver and on executors.",
        default_words="none",
    )
    queues: tuple[str, ...] = option(
        "queues",
        "list",
        (),
        "source",
        "The queues to read. `queue` is the same. They must exist.",
        default_words="required, or `queuePattern`",
    )
    queue_pattern: str = option(
        "queuePattern",
        "text",
        "",
        "source",
        "Instead of `queues`: all classic and quorum queues of the virtual host whose whole name"
        " this regular expression matches, but for those that are one connection's own (exclusive)."
        " Needs `managementUrl`. A streaming query takes in queues that come into being, and lets"
        " go of those that are deleted.",
        default_words="none",
    )
    management_url: str = option(
        "managementUrl",
        "text",
        "",
        "source",
        "With queuePattern: RabbitMQ's HTTP API (its management plugin), `http://host:15672` or"
        " `https://...`, with the path under which a proxy has it. It is asked as the user who"
        " connects to the broker, unless the URL names another, `http://user:password@...`; with"
        " the same files for TLS.",
        default_words="none",
    )
    discovery_interval_ms: int = option(
        "discoveryInterval",
        "count",
        30_000,
        "source",
        "With queuePattern, streaming: milliseconds between two looks at which queues there are.",
        low=100,
        high=86_400_000,
    )
    queue_type: str = option(
        "queueType",
        "choice",
        "queue",
        "source",
        "`queue` for classic and quorum queues, `stream` for streams. A stream that is read as a"
        " queue is refused.",
        choices=("queue", "stream"),
    )
    prefetch: int = option(
        "prefetch",
        "count",
        200_000,
        "source",
        "The most messages unacknowledged per connection: the bound of what has left the broker and"
        " is not in the checkpoint. Above 65535 it is divided among several consumers on one"
        " channel. For streams it is the credit of each reader, at most 65535.",
        low=1,
        high=10_000_000,
    )
    consumers_per_queue: int = option(
        "consumersPerQueue",
        "count",
        1,
        "source",
        "Consumers for each queue, with a connection and a prefetch each. Not for streams.",
        low=1,
        high=64,
    )
    gather: str = option(
        "gather",
        "choice",
        "driver",
        "source",
        "Queues, streaming: where consumers are. `driver`: in processes beside the driver."
        " `executors`: on executors, in processes that the query's tasks start there and that"
        " outlive them; messages do not pass the driver then.",
        choices=("driver", "executors"),
    )
    gatherers: int = option(
        "gatherers",
        "count",
        2,
        "source",
        "With gather = executors: on how many executors, at most. Each has a share of the queues,"
        " and one queue at least, with as many consumers more if these are fewer.",
        low=1,
        high=10_000,
    )
    max_messages_per_batch: int = option(
        "maxMessagesPerBatch",
        "count",
        0,
        "source",
        "The most rows of one micro-batch; half the prefetch lets the next batch gather meanwhile."
        " Of a batch read of queues: the most rows of each queue.",
        default_words="100000; in batch reads all",
    )
    max_bytes_per_batch: int = option(
        "maxBytesPerBatch",
        "count",
        128 * MIB,
        "source",
        "A micro-batch is closed at this size (bytes of contents, to the chunk). As much again may"
        " wait on the driver's side for the next one; what is more stays in the broker.",
        low=1,
    )
    poll_timeout_ms: int = option(
        "pollTimeout",
        "count",
        100,
        "source",
        "Milliseconds a trigger waits for a first message, and after which a finite read asks a"
        " queue that sends nothing whether it is empty.",
        low=1,
        high=60_000,
    )
    min_messages_per_trigger: int = option(
        "minMessagesPerTrigger",
        "count",
        0,
        "source",
        "No micro-batch of fewer rows, unless `maxTriggerDelay` has passed, or no more can be held"
        " (`maxBytesPerBatch`). Not heeded by finite reads (`availableNow`).",
        high=10_000_000,
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        "count",
        900_000,
        "source",
        "Milliseconds after the last batch, or the start of the query, when what is there is a"
        " batch, whatever `minMessagesPerTrigger` says.",
        high=86_400_000,
    )
    max_rows_per_second: int = option(
        "maxRowsPerSecond",
        "count",
        0,
        "source",
        "The most rows a second on average, of all queues together. Batches have what the time"
        " since the last one allows, so that triggers may be far apart.",
        default_words="no limit",
        high=10_000_000,
    )
    min_partitions: int = option(
        "minPartitions",
        "count",
        2,
        "source",
        "Tasks of a batch, when it has enough rows.",
        low=1,
        high=10_000,
    )
    ack_mode: str = option(
        "ackMode",
        "choice",
        "default",
        "source",
        "When messages are acknowledged. Streaming: `checkpoint` (default), after the batch is in"
        " the checkpoint. Batch reads: `never` (default), they go back to the queue; or `onRead`,"
        " when a task has read its queue to the end, and lost if the job fails after that. A task"
        " reads to the end whatever Spark wants of it, so `show(1)`, `first` and `limit` empty the"
        " queue too; `maxMessagesPerBatch` bounds what they take.",
        choices=("default", "checkpoint", "never", "onRead"),
    )
    checkpoint_location: str = option(
        "checkpointLocation",
        "text",
        "",
        "source",
        "Queues, streaming: the query's `checkpointLocation` once more, a path or URL. Its batches"
        " are then acknowledged when they are committed, also where nothing else says so.",
        default_words="none",
    )
    starting_offsets: str | int | datetime = option(  # noqa: RUF009 - as the others
        "startingOffsets",
        "offset",
        FIRST,
        "source",
        "Streams: where a new query begins: `first`, `last` (the last chunk), `next` (only new"
        " messages), an offset, or a time in ISO form (to the chunk).",
    )
    ending_offsets: str | int | datetime = option(  # noqa: RUF009
        "endingOffsets",
        "offset",
        NEXT,
        "source",
        "Streams, batch reads: the offset before which to stop; `next`: what is there now.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        "switch",
        True,
        "source",
        "Fail when wanted offsets are gone by retention, when a finite read finds less than was"
        " counted, when a task of a batch read with `onRead` runs again and finds less, or when a"
        " batch cannot be replayed. Else go on with what is there.",
    )
    include_properties: bool = option(
        "includeProperties",
        "switch",
        True,
        "source",
        "The columns of the basic properties. Without them rows are read faster.",
    )
    exactly_once: bool = option(
        "exactlyOnce",
        "switch",
        False,
        "source",
        "Queues: each (queue, message id) comes once, and a replayed batch has the rows it had."
        " Needs `ledger`; messages without message_id: `messagesWithoutId`.",
    )
    ledger: str = option(
        "ledger",
        "text",
        "",
        "source",
        "With exactlyOnce: where the ids of the latest batches are kept, for this query alone, on"
        " storage that outlives the driver: a directory of its machine, or a URL of any file system"
        " that Spark can have a checkpoint on (then the driver is Python, and has registered the"
        " source).",
        default_words="none",
    )
    dedup_window: int = option(
        "dedupWindow",
        "count",
        1_000_000,
        "source",
        "With exactlyOnce: how many ids are remembered, the latest.",
        low=1,
    )
    messages_without_id: str = option(
        "messagesWithoutId",
        "choice",
        FAIL,
        "source",
        "With exactlyOnce, messages without a message_id: `fail`, an error; `skip`, left out, and"
        " acknowledged with the batch they came in; `deadLetter`, left out, and rejected when that"
        " batch is committed, so that the queue's dead-letter exchange gets them (a queue without"
        " one drops them).",
        choices=(FAIL, "skip", DEAD_LETTER),
    )
    transfer_host: str = option(
        "transferHost",
        "text",
        "127.0.0.1",
        "source",
        "Queues: the driver's address that executors reach, where they fetch gathered messages. On"
        " a cluster set it to the driver's host name.",
    )
    transfer_bind: str = option(
        "transferBind",
        "text",
        "",
        "source",
        "Queues: the driver's own address to listen at for that, where it is not known to itself by"
        " `transferHost` (containers, address translation); 0.0.0.0: at all.",
        default_words="`transferHost`",
    )
    transfer_port: int = option(
        "transferPort",
        "count",
        0,
        "source",
        "Queues: the port for that, one for each query. 0: any that is free.",
        high=65_535,
    )
    transfer_tls: bool = option(
        "transferTls",
        "switch",
        False,
        "source",
        "Queues, streaming: TLS 1.3 for that, and between driver and executors that gather. Nothing"
        " is to be configured: each process makes a certificate when it starts, and its hash comes"
        " to the tasks with its address.",
    )
    exchange: str = option(
        "exchange",
        "text",
        "",
        "sink",
        "The exchange to publish to; without it the column `exchange`, else the default exchange.",
        default_words="column, else the default exchange",
    )
    routing_key: str = option(
        "routingKey",
        "text",
        "",
        "sink",
        "The routing key of every row; without it the column `routing_key`, which must be there.",
        default_words="column",
    )
    mandatory: bool = option(
        "mandatory",
        "switch",
        True,
        "sink",
        "A message that no queue takes is an error that names the row.",
    )
    dead_letter_exchange: str = option(
        "deadLetterExchange",
        "text",
        "",
        "sink",
        "Where a row goes that the broker does not take (returned: no queue takes it; negatively"
        " confirmed: the queue is full), instead of an error. It keeps its routing key, and has the"
        " headers `x-spark-refused` (why), `x-spark-exchange` and `x-spark-routing-key` besides.",
        default_words="none; the default exchange if `deadLetterRoutingKey` is given",
    )
    dead_letter_routing_key: str = option(
        "deadLetterRoutingKey",
        "text",
        "",
        "sink",
        "The routing key of such rows; with no `deadLetterExchange` a queue.",
        default_words="the row's",
    )
    persistent: bool = option(
        "persistent",
        "switch",
        True,
        "sink",
        "Delivery mode 2, where the column `delivery_mode` says nothing else.",
    )
    max_in_flight: int = option(
        "maxInFlight",
        "count",
        2000,
        "sink",
        "Messages of a task published and not yet confirmed.",
        low=1,
        high=1_000_000,
    )
    place_headers: bool = option(
        "placeHeaders",
        "switch",
        True,
        "sink",
        "Add `x-spark-query-id`, `x-spark-batch-id`, `x-spark-partition` and `x-spark-sequence`:"
        " where a row stood in the attempt that wrote it. They do not name it: behind a shuffle it"
        " stands elsewhere in another attempt.",
    )
    deduplication: str = option(
        "deduplication",
        "choice",
        "none",
        "sink",
        "Add `x-deduplication-header`, which queues with `x-message-deduplication` heed: the column"
        " `deduplication_id` (`column`); or made of query, batch and partition, a hash of the row,"
        " and its number among equal rows (`content`).",
        choices=("none", "column", "content"),
        gone="position",
        why_gone="; position is no name: a task that runs again behind a shuffle (an aggregation, a"
        " join, a repartition) has its rows in another order, and a writer cannot see whether there"
        " is one",
    )
    write_id: str = option(
        "writeId",
        "text",
        "",
        "sink",
        "Stands for the query id in batch writes. Give the same when a job is run again, and"
        " another one for other rows: in `foreachBatch` with the number of the batch.",
        default_words="a new one each time",
    )
    cafile: str = option(
        "cafile",
        "text",
        "",
        "both",
        "TLS: authorities to believe, PEM.",
        default_words="the system's",
    )
    certfile: str = option(
        "certfile", "text", "", "both", "TLS: own certificate, PEM.", default_words="none"
    )
    keyfile: str = option("keyfile", "text", "", "both", "TLS: its key.", default_words="none")
    verify: bool = option("verify", "switch", True, "both", "TLS: check certificate and host name.")
    timeout_ms: int = option(
        "timeout",
        "count",
        30_000,
        "both",
        "Milliseconds to wait for an answer, a confirm or a socket that takes nothing.",
        low=1,
        high=3_600_000,
    )
    reconnect_for_ms: int = option(
        "reconnectFor",
        "count",
        300_000,
        "both",
        "Milliseconds a broker may be away: so long a connection that is lost or refused is tried"
        " again, and the log says so. 0: never. Wrong credentials and missing queues are said at"
        " once.",
        high=86_400_000,
    )
    retry_backoff_ms: int = option(
        "retryBackoff",
        "count",
        200,
        "both",
        "Milliseconds before a connection is tried the second time; doubled each time, at most 5"
        " seconds.",
        low=1,
        high=60_000,
    )

    @property
    def addresses(self) -> list[Address]:
        """The addresses of the brokers, in the order of `uris`, with the user and password of their
        own options. Raises `Refused` when a URI or the password file cannot be read."""
        try:
            found = [Address.parse(uri) for uri in self.uris]
        except Refused as refused:
            raise Refused(f"uris: {refused}") from None
        password = self._password()
        return [
            replace(
                address,
                username=self.user or address.username,
                password=password or address.password,
            )
            for address in found
        ]

    def _password(self) -> str:
        if not self.password_file:
            return self.password
        try:
            return Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise Refused(
                f"passwordFile = {self.password_file!r}: cannot be read: {error}"
            ) from error

    @property
    def tls(self) -> TlsFiles:
        """The files for connections under TLS, and whether they check host names."""
        return TlsFiles(
            self.cafile or None, self.certfile or None, self.keyfile or None, self.verify
        )

    @property
    def rows_per_batch(self) -> int:
        """The most rows of a micro-batch: maxMessagesPerBatch, or a default when that is 0."""
        return self.max_messages_per_batch or ROWS_PER_BATCH

    @property
    def has_dead_letters(self) -> bool:
        return bool(self.dead_letter_exchange or self.dead_letter_routing_key)

    @property
    def is_stream(self) -> bool:
        return self.queue_type == "stream"
