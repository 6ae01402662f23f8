"""What a connection hands to its owner, in the order of the wire.

A *content* is one `bytes`: the raw header frame and the raw body frames after it, with their
heads, end octets and the channel number they came with.
"""

from __future__ import annotations

import struct

from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import BasicDeliver, BasicPublish


class Event:
    """Base class of everything that `AmqpConnection.next_event` returns."""

    __slots__ = ()


class ProtocolHeader(Event):
    """The eight octets a connection begins with; only four if they are not even "AMQP"."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Heartbeat(Event):
    """The peer has sent a heartbeat frame."""

    __slots__ = ()


class ContentDue(Event):
    """The next frame is a publish, or continues a content, and the owner wants none now. It stays
    in the buffer."""

    __slots__ = ()


class MethodFrame(Event):
    """A method that is not part of a run and has no content; `raw` is the whole frame."""

    __slots__ = ("channel", "method", "raw")

    def __init__(self, channel: int, method: Method, raw: bytes) -> None:
        self.channel = channel
        self.method = method
        self.raw = raw


class AnyPublishes(Event):
    """To a server: consecutive publishes of one channel. `size` is the sum of the contents'
    lengths."""

    __slots__ = ("channel", "contents", "size")

    channel: int
    contents: list[bytes]
    size: int


class Publishes(AnyPublishes):
    """Publishes with the same raw method frame. `same_properties` says that all header frames are
    equal byte for byte, so that reading one is reading all. `same_size` says that all have one
    length, and that their header frames differ at most in the properties' `free_spans`."""

    __slots__ = ("method", "raw_method", "same_properties", "same_size")

    def __init__(
        self,
        channel: int,
        raw_method: bytes,
        method: BasicPublish,
        contents: list[bytes],
        size: int,
        same_properties: bool,
        same_size: bool,
    ) -> None:
        self.channel = channel
        self.raw_method = raw_method
        self.method = method
        self.contents = contents
        self.size = size
        self.same_properties = same_properties
        self.same_size = same_size


class MixedKeyPublishes(AnyPublishes):
    """Publishes with a method frame each, but header frames that are equal byte for byte, so that
    all contents have one length. The three lists go together."""

    __slots__ = ("methods", "raw_methods")

    def __init__(
        self,
        channel: int,
        raw_methods: list[bytes],
        methods: list[BasicPublish],
        contents: list[bytes],
    ) -> None:
        self.channel = channel
        self.raw_methods = raw_methods
        self.methods = methods
        self.contents = contents
        self.size = len(contents) * len(contents[0])


class Acks(Event):
    """Consecutive basic.ack of one channel, none of them `multiple`; confirms in a client."""

    __slots__ = ("channel", "tags")

    def __init__(self, channel: int, tags: list[int]) -> None:
        self.channel = channel
        self.tags = tags


class Deliveries(Event):
    """To a client: consecutive deliveries that differ in tag and content only.

    `messages` are the octets, as received, of a run whose messages have a constant stride: each
    `stride` octets begin with a method frame of `skip` octets, and the content is the rest.
    Contents are cut from there on demand. A run without a stride has only its contents.
    """

    __slots__ = (
        "_contents",
        "channel",
        "consumer_tag",
        "exchange",
        "messages",
        "redelivered",
        "routing_key",
        "skip",
        "stride",
        "tags",
    )

    def __init__(
        self,
        channel: int,
        method: BasicDeliver,
        tags: list[int],
        contents: list[bytes],
        messages: bytes | memoryview = b"",
        skip: int = 0,
    ) -> None:
        self.channel = channel
        self.consumer_tag = method.consumer_tag
        self.exchange = method.exchange
        self.routing_key = method.routing_key
        self.redelivered = method.redelivered
        self.tags = tags
        self.messages = messages
        self.stride = len(messages) // len(tags)
        self.skip = skip
        self._contents = contents

    @property
    def contents(self) -> list[bytes]:
        """Return all contents of the run, in the order of the wire; a run with a stride is cut on
        the first call."""
        if not self._contents:
            cutter = struct.Struct(f"{self.skip}x{self.stride - self.skip}s")
            self._contents = [found for (found,) in cutter.iter_unpack(self.messages)]
        return self._contents

    def content(self, index: int) -> bytes:
        """Return the content of one delivery, counted from 0, or from -1 backwards."""
        if self._contents:
            return self._contents[index]
        start = range(len(self.tags))[index] * self.stride
        return bytes(self.messages[start + self.skip : start + self.stride])


class ContentMethod(Event):
    """Any other method with its content: basic.return and basic.get-ok, to a client."""

    __slots__ = ("channel", "content", "method")

    def __init__(self, channel: int, method: Method, content: bytes) -> None:
        self.channel = channel
        self.method = method
        self.content = content


class ContentTooLarge(Event):
    """A content header announced `size` bytes, more than are allowed. The rest of the content is
    swallowed."""

    __slots__ = ("channel", "method", "size")

    def __init__(self, channel: int, size: int, method: Method) -> None:
        self.channel = channel
        self.size = size
        self.method = method
