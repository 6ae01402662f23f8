"""One connection of an attacker: it writes what it has, and drops what comes.

Answers are found by their frames' first octets in the stream, not by decoding it: an attacker
should cost little beside the broker it presses.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from typing import TYPE_CHECKING

from hostile import frames
from sluicemq.amqp.methods import BasicQos, BasicQosOk, ConnectionOpenOk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.amqp.method import Method

RECEIVE_BYTES = 1 << 18
TAIL_BYTES = 4096
"""What is kept of the stream: an answer that is cut by two reads is found in it."""
PATIENCE_S = 600.0
CLOSES = re.compile(rb"\x01..\x00\x00..\x00(?:\x0a\x00\x32|\x14\x00\x28)(..)(.)", re.DOTALL)
"""connection.close or channel.close, with code and the text's length."""
OPENED_CHANNEL = re.compile(rb"\x01..\x00\x00..\x00\x14\x00\x0b", re.DOTALL)
"""channel.open-ok on any channel."""
CLOSED_CHANNEL = re.compile(rb"\x01..\x00\x00..\x00\x14\x00\x28", re.DOTALL)
"""channel.close on any channel."""


class Gone(Exception):
    """The broker ended the connection, or is not there."""


def pattern(method: type[Method], channel: int) -> re.Pattern[bytes]:
    """Finds that method's frames on that channel."""
    head = re.escape(struct.pack(">BH", 1, channel)) + rb"\x00\x00.."
    ids = re.escape(struct.pack(">HH", method.class_id, method.method_id))
    return re.compile(head + ids, re.DOTALL)


class Link:
    """A connection that is logged in, with channels from 1 up."""

    def __init__(
        self,
        port: int,
        channels: int = 1,
        user: str = "guest",
        password: str = "guest",
        receive_buffer: int | None = None,
    ) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.tail = b""
        self.closed = ""
        """The first reason the broker gave for closing this or a channel of it."""
        self.write(frames.login(channels, user, password))
        if channels:
            self.await_pattern(OPENED_CHANNEL, channels)
        else:
            self.await_pattern(pattern(ConnectionOpenOk, 0))

    def read(self) -> bytes:
        """What is there; nothing: there is nothing."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise Gone(self.closed or str(error)) from error
        if not data:
            raise Gone(self.closed or "the broker closed the socket")
        if not self.closed:
            self.look_for_close(data)
        return data

    def look_for_close(self, data: bytes) -> None:
        """Remember why the broker closes."""
        if found := CLOSES.search(data):
            code = int.from_bytes(found[1], "big")
            text = data[found.end() : found.end() + found[2][0]]
            self.closed = f"{code} {text.decode(errors='replace')}"

    def send(self, view: memoryview) -> int:
        """How many bytes of it were written."""
        try:
            return self.socket.send(view)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.last_words()
            raise Gone(self.closed or str(error)) from error

    def last_words(self) -> None:
        """What the broker said before it closed the socket."""
        try:
            while self.read():
                pass
        except Gone:
            pass

    def write(self, data: bytes, keep: int = TAIL_BYTES) -> None:
        """All of it, reading meanwhile; the last octets that came are kept for `await_pattern`."""
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select((self.socket,), (self.socket,), (), PATIENCE_S)
            if readable:
                self.tail = (self.tail + self.read())[-keep:]
            if writable:
                view = view[self.send(view) :]

    def write_all(self, chunks: Iterable[bytes]) -> None:
        """One after the other, reading meanwhile."""
        for chunk in chunks:
            self.write(chunk)

    def await_pattern(self, wanted: re.Pattern[bytes], count: int = 1) -> bytes:
        """Until it came so often; the stream from the last one on."""
        data, self.tail = self.tail, b""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            end = 0
            for found in wanted.finditer(data):
                end = found.end()
                count -= 1
                if not count:
                    self.tail = data[end:]
                    return data[end:]
            data = data[max(end, len(data) - TAIL_BYTES) :]
            if not select.select((self.socket,), (), (), max(0, deadline - time.monotonic()))[0]:
                raise Gone("no answer")
            data += self.read()

    def wait(self, answer: type[Method], count: int = 1, channel: int = 1) -> bytes:
        """Until that answer came so often; what follows its ids in the last one."""
        return self.await_pattern(pattern(answer, channel), count)

    def call(self, method: Method, answer: type[Method], channel: int = 1) -> bytes:
        """Send it and wait for the answer; what follows the answer's ids."""
        self.tail = b""
        self.write(method.frame(channel))
        return self.wait(answer, channel=channel)

    def settle(self) -> None:
        """Until the channel has done what it was sent."""
        self.call(BasicQos(), BasicQosOk)

    def close(self) -> None:
        """Without ceremony."""
        self.socket.close()


def press(writers: dict[Link, Iterator[bytes]]) -> None:
    """Write each link's chunks as fast as it takes them, and drop what comes, until all chunks are
    written."""
    poll = select.poll()
    links = {link.socket.fileno(): link for link in writers}
    left: dict[int, memoryview] = {}
    for number, link in links.items():
        left[number] = memoryview(next(writers[link], b""))
        poll.register(number, select.POLLIN | (select.POLLOUT if left[number] else 0))
    while any(left.values()):
        for number, events in poll.poll(1000):
            link = links[number]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                link.read()
            if events & select.POLLOUT and left[number]:
                left[number] = left[number][link.send(left[number]) :]
                if not left[number]:
                    left[number] = memoryview(next(writers[link], b""))
                    if not left[number]:
                        poll.modify(number, select.POLLIN)
