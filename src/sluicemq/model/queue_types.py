"""The types of queues: one row a type, with the facts that other parts need.

No code compares the name of a type: code that depends on another fact adds it to the row. How
queues of a type are made, and how one recovers from a fault, is in `chain/queue/shell_types.py`, by
the same names.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"

MIRRORS: Final = (
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-mode",
    "queue-master-locator",
)
"""The policy keys of mirrored queues."""


class QueueType(NamedTuple):
    """One type of queues: its properties, and what declarations and policies may say of them.
    `arguments.py` checks the arguments that are not refused here."""

    name: str
    is_there: bool
    """Does this broker have the type? If not, its name is known, and definitions that use it are
    kept."""
    lasts: bool
    """Must its queues be durable, and neither exclusive nor auto-delete?"""
    is_server_named: bool
    """May a client leave it to the broker to find a name?"""
    has_get_beside_active: bool
    """Is there basic.get for its queues with a single active consumer?"""
    has_global_qos: bool
    """May a channel consume from its queues that has a prefetch count for all its consumers?"""
    is_log: bool
    """Do consumers only read its queues, as a log? Then nothing is taken out by basic.get, a purge
    or an acknowledgement, and what was read cannot be given back."""
    has_stream_files: bool
    """Are its messages in the segments of a stream (storage/stream_log.py), and not in the journal
    and a queue index?"""
    has_mirrors: bool
    """Has a queue with members a master among them, which clients use, and are the others mirrors?
    Else each member is as good as the others."""
    scope: str
    """The `apply-to` of policies that are for queues of this type alone."""
    refused_arguments: tuple[str, ...]
    """Arguments that nobody may declare a new queue of the type with."""
    compared_arguments: tuple[str, ...]
    """Arguments that must be the same when a queue is declared again, in RabbitMQ's order: the
    first that is not is named. Any others may be said then."""
    unfit_policy_keys: tuple[str, ...]
    """A policy that says one of these does not hold for queues of this type, whatever else it says.
    These are RabbitMQ's, but for delivery-limit, which our classic queues have, too."""


TYPES: Final[dict[str, QueueType]] = {
    CLASSIC: QueueType(
        name=CLASSIC,
        is_there=True,
        lasts=False,
        is_server_named=True,
        has_get_beside_active=True,
        has_global_qos=True,
        is_log=False,
        has_stream_files=False,
        has_mirrors=True,
        scope="classic_queues",
        refused_arguments=(
            "x-dead-letter-strategy",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-quorum-initial-group-size",
            "x-max-age",
            "x-stream-max-segment-size-bytes",
            "x-initial-cluster-size",
            "x-queue-leader-locator",
        ),
        compared_arguments=(
            "x-expires",
            "x-message-ttl",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-priority",
            "x-overflow",
            "x-queue-mode",
            "x-queue-version",
            "x-single-active-consumer",
            "x-queue-type",
            "x-queue-master-locator",
            "x-delivery-limit",
            "x-message-deduplication",
            "x-cache-size",
            "x-cache-ttl",
        ),
        unfit_policy_keys=(
            "dead-letter-strategy",
            "initial-cluster-size",
            "max-age",
            "queue-leader-locator",
            "stream-max-segment-size-bytes",
        ),
    ),
    QUORUM: QueueType(
        name=QUORUM,
        is_there=True,
        lasts=True,
        is_server_named=False,
        has_get_beside_active=False,
        has_global_qos=False,
        is_log=False,
        has_stream_files=False,
        has_mirrors=False,
        scope="quorum_queues",
        refused_arguments=(
            "x-max-priority",
            "x-queue-mode",
            "x-queue-version",
            "x-queue-master-locator",
            "x-max-age",
            "x-stream-max-segment-size-bytes",
            "x-initial-cluster-size",
            "x-message-deduplication",
        ),
        compared_arguments=(
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-dead-letter-strategy",
            "x-expires",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-overflow",
            "x-single-active-consumer",
            "x-queue-type",
            "x-quorum-initial-group-size",
            "x-delivery-limit",
            "x-message-ttl",
            "x-queue-leader-locator",
        ),
        unfit_policy_keys=(
            "initial-cluster-size",
            "max-age",
            "queue-mode",
            "stream-max-segment-size-bytes",
            *MIRRORS,
        ),
    ),
    STREAM: QueueType(
        name=STREAM,
        is_there=True,
        lasts=True,
        is_server_named=False,
        has_get_beside_active=True,
        has_global_qos=False,
        is_log=True,
        has_stream_files=True,
        has_mirrors=False,
        scope="streams",
        refused_arguments=(
            "x-expires",
            "x-message-ttl",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-max-length",
            "x-max-priority",
            "x-overflow",
            "x-queue-mode",
            "x-queue-version",
            "x-single-active-consumer",
            "x-queue-master-locator",
            "x-delivery-limit",
            "x-dead-letter-strategy",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-quorum-initial-group-size",
            "x-message-deduplication",
        ),
        compared_arguments=(
            "x-max-length-bytes",
            "x-queue-type",
            "x-max-age",
            "x-stream-max-segment-size-bytes",
            "x-initial-cluster-size",
            "x-queue-leader-locator",
        ),
        unfit_policy_keys=(
            "dead-letter-exchange",
            "dead-letter-routing-key",
            "dead-letter-strategy",
            "delivery-limit",
            "expires",
            "max-in-memory-bytes",
            "max-in-memory-length",
            "max-length",
            "message-ttl",
            "overflow",
            "queue-mode",
            *MIRRORS,
        ),
    ),
}

TYPES_HERE: Final = tuple(each.name for each in TYPES.values() if each.is_there)
"""The names of the types that this broker has."""
