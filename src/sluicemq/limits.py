"""Every bound in one place: a name with its unit, and one line why it is what it is.

These are not settings: what a user may set is in `config.py`. Tests shrink what they need by
passing smaller numbers to the classes, never by changing these.
"""

from __future__ import annotations

from typing import Final

# flow: credit and gates

CREDIT_MAX_MESSAGES: Final = 1_000_000
"""Largest initial credit a link may be given: beyond it credit bounds nothing a node could hold."""

CHANNEL_FLOW_STICKY_NS: Final = 1_000_000_000
"""A channel or queue is shown as `flow` this long after it was last held up (RabbitMQ: 1 s), so
that one which toggles a thousand times a second does not flicker."""

CONNECTION_FLOW_STICKY_NS: Final = 5_000_000_000
"""The same for a connection (RabbitMQ: 5 s, one interval of its management UI)."""

LINK_ACTIVE_NS: Final = 1_000_000_000
"""A link counts as active when it handled a message in this period or the one before: short
enough to give an idle publisher's share to the others soon, long enough to count one a second."""

UNSENT_MESSAGES_MAX: Final = 200
"""Deliveries a queue hands to one channel before the writer has sent any of them (RabbitMQ's
UNSENT_MESSAGE_LIMIT): bounds what a consumer that does not read can make the broker hold."""

UNSENT_MESSAGES_NOTIFY: Final = 50
"""The writer tells the queue each time it has sent this many (RabbitMQ's
MORE_CONSUMER_CREDIT_AFTER)."""

# amqp

TABLE_DEPTH_MAX: Final = 32
"""Tables and arrays inside one another in a field table: far more than anyone means to send, far
less than Python's stack holds."""

TABLE_VALUES_MAX: Final = 4096
"""Values in one decoded field table with all that is nested in it: a value costs a byte on the
wire and some hundred in RAM."""

UNTUNED_FRAME_MAX_BYTES: Final = 131_072
"""Largest frame before frame_max is negotiated (RabbitMQ takes a start-ok with 100 kB in it)."""

MESSAGE_SIZE_MAX_BYTES: Final = 134_217_728
"""Largest body (RabbitMQ's max_message_size, 128 MiB); also the largest frame without frame_max."""

RUN_MESSAGES_MAX: Final = 200
"""Contents cut from the buffer at a time: one credit window of RabbitMQ's, so that credit is looked
at between two runs."""

RUN_ACKS_MAX: Final = 4096
"""Acks cut from the buffer at a time."""

PUBLISH_METHODS_MAX: Final = 1024
"""Different basic.publish frames a connection remembers; the table is emptied when full."""
