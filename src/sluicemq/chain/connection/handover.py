"""reader ---methods, acknowledgements---> channels: a bounded number waits there, and no more are
parsed.

Publishes have their credit; methods have none. Without a bound everything that a client has sent
would be parsed into the inbox of a channel that cannot keep up: it takes ten times the memory
there, and the message that ends the channel waits behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel import Channel

INBOX_MAX: Final = 200
"""How many messages may wait in a channel's inbox while more is parsed for it."""


class Handover:
    """Keeps one connection from giving a channel more methods and acknowledgements than it can
    handle."""

    __slots__ = ("channel",)

    def __init__(self) -> None:
        self.channel: Channel | None = None
        """The channel that had too much to do when it was last given something; None: there is
        none."""

    def give(self, channel: Channel, event: object) -> None:
        """Post the event to the channel, and note whether that is enough for now."""
        channel.post(event)
        if len(channel.inbox) >= INBOX_MAX:
            self.channel = channel

    def waits(self) -> bool:
        """Tell whether a channel has INBOX_MAX messages or more to handle, so that no more may be
        parsed before it has handled some."""
        channel = self.channel
        if channel is None:
            return False
        if len(channel.inbox) >= INBOX_MAX:
            return True
        self.channel = None
        return False

    def forget(self) -> None:
        """Wait for no channel any more, because one of them ends."""
        self.channel = None
