"""What connections cost the broker: idle ones in memory, short ones in time.

    .venv/bin/python bench/connections.py idle [--count 5000] [--heartbeat 60] [--tls]
    .venv/bin/python bench/connections.py churn [--rate 500] [--seconds 60] [--resets 0.2] [--tls]

`idle` opens connections through connection.open and leaves them alone for a few heartbeats;
it prints resident memory before and after. `churn` connects, opens a channel, and closes in order,
or for a part of the connections with a reset; it prints the rate, the broker's CPU time a
connection, its memory, and which objects are more than before. Both start a broker of their own,
on loopback, in a process that counts its objects when asked (SIGUSR1).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from brokers import free_port, wait_for
from history import keep

from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import MethodFrame
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
    ConnectionTuneOk,
)

HEADER = b"AMQP\0\0\x09\x01"
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with which closing a socket resets it."""
OPENING_AT_ONCE = 100
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
TOLD = 12


class Client(asyncio.Protocol):
    """One connection; `opened` and `closed` are answered by the broker."""

    def __init__(self, heartbeat: int, with_channel: bool) -> None:
        self.heartbeat = heartbeat
        self.with_channel = with_channel
        self.amqp = AmqpConnection(CLIENT)
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.write(HEADER)

    def data_received(self, data: bytes) -> None:
        self.amqp.receive_data(data)
        while (event := self.amqp.next_event()) is not None:
            if isinstance(event, MethodFrame):
                self.answer(event.method)

    def answer(self, method: object) -> None:
        """The client's next word."""
        if isinstance(method, ConnectionStart):
            login = ConnectionStartOk(
                client_properties={"product": "bench"},
                mechanism="PLAIN",
                response=b"\0guest\0guest",
                locale="en_US",
            )
            self.transport.write(login.frame(0))
        elif isinstance(method, ConnectionTune):
            tuned = ConnectionTuneOk(
                channel_max=method.channel_max,
                frame_max=method.frame_max,
                heartbeat=self.heartbeat,
            )
            opening = tuned.frame(0) + ConnectionOpen(virtual_host="/").frame(0)
            if self.with_channel:
                opening += ChannelOpen().frame(1)
            self.transport.write(opening)
        elif isinstance(method, ChannelOpenOk if self.with_channel else ConnectionOpenOk):
            self.opened.set_result(None)
        elif isinstance(method, ConnectionCloseOk):
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("closed while opening"))
        self.closed.set_result(None)

    def close(self, reset: bool) -> None:
        """In order, or by a reset."""
        if reset:
            plain = self.transport.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()
        else:
            goodbye = ConnectionClose(
                reply_code=200, reply_text="bye", failed_class_id=0, failed_method_id=0
            )
            self.transport.write(goodbye.frame(0))


class Broker:
    """Our broker in a process of its own, seen from outside."""

    def __init__(self, home: Path, tls: bool) -> None:
        self.port = free_port()
        self.home = home
        self.context: ssl.SSLContext | None = None
        command = [sys.executable, __file__, "serve", str(home), str(self.port)]
        if tls:
            self.context = certify(home)
            self.tls_port = free_port()
            command.append(str(self.tls_port))
        with (home / "log.txt").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        wait_for(self.port, self.process)

    async def connect(self, heartbeat: int, with_channel: bool) -> Client:
        """One more connection, open."""
        loop = asyncio.get_running_loop()
        port = self.tls_port if self.context else self.port
        _, client = await loop.create_connection(
            lambda: Client(heartbeat, with_channel), "127.0.0.1", port, ssl=self.context
        )
        await client.opened
        return client

    def rss_bytes(self) -> int:
        """Resident memory."""
        words = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(words[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_ns(self) -> int:
        """User and system time so far."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_NS

    def objects(self) -> Counter[str]:
        """Live objects by type."""
        answer = self.home / "objects.json"
        answer.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        for _ in range(100):
            time.sleep(0.1)
            if answer.exists():
                return Counter(json.loads(answer.read_text()))
        raise SystemExit("the broker does not count its objects")

    def stop(self) -> None:
        """SIGTERM."""
        self.process.terminate()
        self.process.wait()


def certify(home: Path) -> ssl.SSLContext:
    """A certificate for the broker in `home`; returns the client's side of it."""
    import trustme  # noqa: PLC0415 (only with --tls)

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(str(home / "key.pem"))
    (home / "cert.pem").write_bytes(b"".join(p.bytes() for p in certificate.cert_chain_pems))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def serve(arguments: list[str]) -> None:
    """The broker's process: DIRECTORY PORT [TLS_PORT]."""
    from sluicemq.cli.main import main as command  # noqa: PLC0415 (the broker's side only)

    home = Path(arguments[0])

    def count(*_: object) -> None:
        gc.collect()
        counted = Counter(f"{type(o).__module__}.{type(o).__name__}" for o in gc.get_objects())
        part = home / "objects.part"
        part.write_text(json.dumps(counted))
        part.rename(home / "objects.json")

    signal.signal(signal.SIGUSR1, count)
    options = ["serve", "--port", arguments[1], "--data-dir", str(home / "data")]
    if len(arguments) > 2:
        options += ["--set", f"listeners.ssl.default={arguments[2]}"]
        options += ["--set", f"ssl_options.certfile={home}/cert.pem"]
        options += ["--set", f"ssl_options.keyfile={home}/key.pem"]
    sys.argv = ["sluicemq", *options]
    command()


async def many(broker: Broker, count: int, heartbeat: int) -> list[Client]:
    """So many open connections."""
    limit = asyncio.Semaphore(OPENING_AT_ONCE)

    async def one() -> Client:
        async with limit:
            return await broker.connect(heartbeat, False)

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def beat(clients: list[Client], seconds: float) -> None:
    """The clients' heartbeats, once a second at the least."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(1)
        for client in clients:
            client.transport.write(HEARTBEAT)


async def idle(broker: Broker, options: argparse.Namespace) -> None:
    """Memory of connections that do nothing."""
    warm = await many(broker, OPENING_AT_ONCE, options.heartbeat)
    for client in warm:
        client.close(False)
    await asyncio.gather(*(client.closed for client in warm))
    before, began, used = broker.rss_bytes(), time.monotonic(), broker.cpu_ns()
    clients = await many(broker, options.count, options.heartbeat)
    took = time.monotonic() - began
    opening = (broker.cpu_ns() - used) / options.count / 1000
    at_once = broker.rss_bytes()
    used, since = broker.cpu_ns(), time.monotonic()
    await beat(clients, options.seconds)
    share = (broker.cpu_ns() - used) / (time.monotonic() - since) / 1e7
    after = broker.rss_bytes()
    print(
        f"{options.count} connections{' over TLS' if options.tls else ''} opened in {took:.1f} s,"
        f" {opening:.0f} us of the broker's CPU each"
    )
    print(
        f"RSS {before / 1e6:.1f} MB before, {at_once / 1e6:.1f} MB at once, {after / 1e6:.1f} MB"
        f" after {options.seconds} s: {(after - before) / options.count / 1000:.1f} kB each;"
        f" {share:.1f} % of a core for heartbeats"
    )
    how = "TLS" if options.tls else "plain"
    each_kb = (after - before) / options.count / 1000
    keep("connections", f"idle, {how}", kb=each_kb, opening_us=opening, percent_of_core=share)
    lost = sum(client.closed.done() for client in clients)
    print(f"closed by the broker: {lost}")
    for client in clients:
        client.transport.abort()


async def one_short(broker: Broker, reset: bool) -> None:
    client = await broker.connect(60, True)
    client.close(reset)
    await client.closed


async def rounds(broker: Broker, rate: int, seconds: float, resets: float) -> tuple[int, int]:
    """Short connections at a rate; how many were made, how many failed."""
    began, made, failed = time.monotonic(), 0, 0
    running: set[asyncio.Task[None]] = set()
    while (now := time.monotonic()) - began < seconds:
        due = int((now - began) * rate) - made
        for _ in range(min(due, 4 * OPENING_AT_ONCE - len(running))):
            made += 1
            reset = made * resets % 1 < resets
            running.add(asyncio.create_task(one_short(broker, reset)))
        await asyncio.sleep(0.005)
        done = {task for task in running if task.done()}
        running -= done
        failed += sum(task.exception() is not None for task in done)
    ended = await asyncio.gather(*running, return_exceptions=True)
    return made, failed + sum(isinstance(each, BaseException) for each in ended)


async def churn(broker: Broker, options: argparse.Namespace) -> None:
    """Connections that come and go."""
    await rounds(broker, options.rate, 3, options.resets)
    await asyncio.sleep(6)  # longer than sockets linger
    objects, before = broker.objects(), broker.rss_bytes()
    used, began = broker.cpu_ns(), time.monotonic()
    made, failed = await rounds(broker, options.rate, options.seconds, options.resets)
    took = time.monotonic() - began
    cost = (broker.cpu_ns() - used) / made / 1000
    await asyncio.sleep(6)
    after = broker.rss_bytes()
    print(
        f"{made / took:.0f} connections/s for {took:.0f} s{' over TLS' if options.tls else ''}"
        f" ({options.resets:.0%} reset, {failed} failed), {cost:.0f} us of the broker's CPU each"
    )
    print(f"RSS {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after")
    how = "TLS" if options.tls else "plain"
    keep("connections", f"churn, {how}", opening_us=cost, rate=made / took)
    more = (broker.objects() - objects).most_common(TOLD)
    print("more objects than before: " + (", ".join(f"{n} {kind}" for kind, n in more) or "none"))


def main() -> None:
    """Run one of the two."""
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=("idle", "churn"))
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--heartbeat", type=int, default=60)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--resets", type=float, default=0.2)
    parser.add_argument("--tls", action="store_true")
    options: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        broker = Broker(Path(home), options.tls)
        try:
            mode = idle if options.mode == "idle" else churn
            run_loop(mode(broker, options))
        finally:
            broker.stop()


def run_loop(work: Any) -> None:
    from sluicemq.host.descriptors import raise_limit  # noqa: PLC0415

    raise_limit()
    asyncio.run(work)


if __name__ == "__main__":
    main()
