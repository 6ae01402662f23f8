"""The names of direct reply-to: what clients write, and what the broker puts in its place."""

from __future__ import annotations

from typing import Final

PSEUDO_QUEUE: Final = "amq.rabbitmq.reply-to"
"""What a client consumes from, and names in the property reply_to."""

ADDRESS: Final = PSEUDO_QUEUE + "."
"""What every address of a channel begins with."""
