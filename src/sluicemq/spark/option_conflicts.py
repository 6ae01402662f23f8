"""Checks options against one another, and against the kind of read; errors name both options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sluicemq.errors import Refused
from sluicemq.spark.management import check_pattern, server_of
from sluicemq.spark.option_declaration import (
    ACK_CHECKPOINT,
    ACK_DEFAULT,
    FAIL,
    FIRST,
    LAST,
    OptionDeclaration,
    Side,
    shown,
)
from sluicemq.spark.unknown_options import NO_TABLES

if TYPE_CHECKING:
    from sluicemq.spark.option_values import OptionValues

READ_BY_TASKS: Final = "here tasks read the broker themselves, under TLS with amqps:// in uris"


def check(options: OptionValues, side: Side, given: Mapping[str, Any]) -> None:
    """Raise `Refused` when options contradict each other or do not fit `side`. `given` has the
    user's options, by field name."""
    if options.password and options.password_file:
        raise Refused("password: give it, or passwordFile, not both")
    addresses = options.addresses
    if side == "source":
        check_queues(options, given)
    if not options.is_stream:
        for name in ("starting_offsets", "ending_offsets"):
            if name in given:
                raise Refused(
                    f"{declared_of(options, name).name} = {given[name]!s}: needs queueType = stream"
                )
    elif options.transfer_tls:
        raise Refused(f"transferTls = true: is for queues; {READ_BY_TASKS}")
    elif options.exactly_once:
        raise Refused("exactlyOnce = true: is for queues; streams are exactly once by offsets")
    check_ids(options, given)
    check_gatherers(options, given)
    if options.has_dead_letters and not options.mandatory:
        raise Refused(
            "mandatory = false: drops rows that no queue takes, so deadLetterExchange and"
            " deadLetterRoutingKey would not get them"
        )
    check_pace(options, given)
    if options.ending_offsets in (FIRST, LAST):
        raise Refused(f"endingOffsets = {options.ending_offsets!s}: must be next or an offset")
    if isinstance(options.ending_offsets, datetime):
        raise Refused(
            f"endingOffsets = {options.ending_offsets.isoformat()}: must be next or an offset"
        )
    if any(address.secure for address in addresses):
        options.tls.context()


def check_queues(options: OptionValues, given: Mapping[str, Any]) -> None:
    """Raise `Refused` unless queues are named, each once, or a pattern is given together with the
    management server that lists queues."""
    if options.queue_pattern:
        check_pattern(options)
        if server_of(options).secure:
            options.tls.context()
        return
    for name in ("management_url", "discovery_interval_ms"):
        if name in given:
            declared = declared_of(options, name)
            value = shown(declared, str(given[name]))
            raise Refused(f"{declared.name} = {value}: needs queuePattern")
    if not options.queues:
        why = "" if given else NO_TABLES
        raise Refused(f"queue: is missing; say which queue to read{why}")
    if len(set(options.queues)) < len(options.queues):
        raise Refused(f"queues = {','.join(options.queues)!r}: a queue is named twice")


def check_ids(options: OptionValues, given: Mapping[str, Any]) -> None:
    """Raise `Refused` when exactlyOnce lacks a ledger, or when an option about message ids is given
    without exactlyOnce."""
    if options.exactly_once and not options.ledger:
        raise Refused("exactlyOnce = true: needs ledger, a directory or a URL")
    if options.exactly_once:
        return
    for name in ("ledger", "dedup_window", "messages_without_id"):
        if name in given and given[name] != FAIL:
            declared = declared_of(options, name)
            raise Refused(
                f"{declared.name} = {shown(declared, str(given[name]))}: needs exactlyOnce ="
                " true, for nothing else looks at ids"
            )


def check_gatherers(options: OptionValues, given: Mapping[str, Any]) -> None:
    """Raise `Refused` when an option about gathering is given for a stream, or `gatherers` while
    the driver gathers."""
    if options.is_stream and options.gather == "executors" and "gather" in given:
        raise Refused(
            "gather = executors: is for queues; a stream is read by the tasks of each batch,"
            " on executors"
        )
    if options.is_stream and options.consumers_per_queue > 1:
        raise Refused(
            f"consumersPerQueue = {options.consumers_per_queue}: is for queues; a stream has one"
            " reader a batch"
        )
    if "gatherers" in given and (options.is_stream or options.gather == "driver"):
        raise Refused(
            f"gatherers = {options.gatherers}: needs gather = executors, and queues: there is"
            " nobody else to be counted"
        )


def check_pace(options: OptionValues, given: Mapping[str, Any]) -> None:
    """Raise `Refused` when minMessagesPerTrigger is above what a batch or all prefetches can hold,
    or when maxTriggerDelay is given without it."""
    least = options.min_messages_per_trigger
    held = options.prefetch * consumers_of(options)
    words = f"minMessagesPerTrigger = {least}: must not be above"
    if least > options.rows_per_batch:
        raise Refused(f"{words} maxMessagesPerBatch ({options.rows_per_batch})")
    if least > held and not options.is_stream:
        raise Refused(
            f"{words} prefetch x queues x consumersPerQueue ({held}): so many never wait at a time"
        )
    if "max_trigger_delay_ms" in given and not least:
        raise Refused(
            f"maxTriggerDelay = {options.max_trigger_delay_ms}: needs minMessagesPerTrigger"
        )


def consumers_of(options: OptionValues) -> int:
    """Return how many consumers the query has at least, each with a prefetch of its own. A pattern
    counts as one queue; each executor that gathers has one consumer at least."""
    consumers = max(len(options.queues), 1) * options.consumers_per_queue
    return consumers if options.gather == "driver" else max(consumers, options.gatherers)


def check_streaming(options: OptionValues) -> None:
    """Raise `Refused` for an ackMode that only batch reads know."""
    if options.ack_mode not in (ACK_DEFAULT, ACK_CHECKPOINT):
        raise Refused(f"ackMode = {options.ack_mode!r}: is for batch reads")


def check_batch(options: OptionValues) -> None:
    """Raise `Refused` for options that only streaming reads know."""
    if options.min_messages_per_trigger:
        raise Refused(
            f"minMessagesPerTrigger = {options.min_messages_per_trigger}: is for streaming reads"
        )
    if options.max_rows_per_second:
        raise Refused(f"maxRowsPerSecond = {options.max_rows_per_second}: is for streaming reads")
    if options.ack_mode == ACK_CHECKPOINT:
        raise Refused(f"ackMode = {options.ack_mode!r}: is for streaming reads")
    if options.exactly_once:
        raise Refused("exactlyOnce = true: is for streaming reads")
    if options.transfer_tls:
        raise Refused(f"transferTls = true: is for streaming reads; {READ_BY_TASKS}")


def declared_of(options: OptionValues, name: str) -> OptionDeclaration:
    """Return the declaration of the option whose field is called `name`."""
    found: OptionDeclaration = {each.name: each for each in fields(options)}[name].metadata[
        "declared"
    ]
    return found
