"""A broker made of the codec and a socket: it says what the test tells it to say."""

from __future__ import annotations

import socket
from typing import Self

from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import Heartbeat, MethodFrame
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
)
from sluicemq.client.address import Address

ANSWERS: dict[type[Method], Method] = {
    ConnectionStartOk: ConnectionTune(2047, 131_072, 0),
    ConnectionOpen: ConnectionOpenOk(),
    ChannelOpen: ChannelOpenOk(),
    ConnectionClose: ConnectionCloseOk(),
}


class ScriptedBroker:
    """Listens on loopback for one connection. `heard` is what its client has said so far."""

    def __init__(self, heartbeat_s: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.heard: list[Method] = []
        self.heartbeats = 0
        self._answers = ANSWERS | {ConnectionStartOk: ConnectionTune(2047, 131_072, heartbeat_s)}
        self._codec = AmqpConnection(SERVER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if hasattr(self, "socket"):
            self.socket.close()

    def accept(self) -> None:
        """Take the connection and begin the opening."""
        self.socket = self._listener.accept()[0]
        self.socket.settimeout(60)
        self.say(ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"), channel=0)

    def say(self, method: Method, channel: int = 1) -> None:
        self.socket.sendall(method.frame(channel))

    def hear(self) -> bool:
        """Read once, and answer what every broker answers; False at the end of the stream."""
        data = self.socket.recv(1 << 20)
        self._codec.receive_data(data)
        while (event := self._codec.next_event()) is not None:
            if isinstance(event, Heartbeat):
                self.heartbeats += 1
            if isinstance(event, MethodFrame):
                self.heard.append(event.method)
                answer = self._answers.get(type(event.method))
                if answer is not None:
                    self.say(answer, event.channel)
        return bool(data)

    def hear_until(self, kind: type[Method]) -> None:
        """Go on until the client has said one of these."""
        while not any(isinstance(method, kind) for method in self.heard):
            assert self.hear(), f"the client ended before {kind.__name__}"

    def reset(self) -> None:
        """End the connection as a crash does: what was not read is lost."""
        linger = (1).to_bytes(4, "little") + bytes(4)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.socket.close()
