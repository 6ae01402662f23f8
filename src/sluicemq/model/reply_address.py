"""The names of direct reply-to: the one that clients write, and those that the broker puts in its
place.
"""

from __future__ import annotations

from typing import Final

PSEUDO_QUEUE: Final = "amq.rabbitmq.reply-to"
"""The name that a client consumes from, and puts into the property reply_to."""

ADDRESS: Final = PSEUDO_QUEUE + "."
"""The beginning of every address of a channel."""
