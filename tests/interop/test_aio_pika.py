"""aio-pika: robust connections, publisher confirms, the queue iterator, a little RPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aio_pika
import aiormq
import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from support.broker import Target

PATIENCE_SECONDS = 240.0

Scenario = Callable[[AbstractChannel], Awaitable[None]]


@pytest.fixture
def run(broker_url: str) -> Callable[[Scenario], None]:
    """Runs a scenario on a channel of a robust connection."""

    async def connected(scenario: Scenario) -> None:
        connection = await aio_pika.connect_robust(broker_url)
        async with connection:
            await scenario(await connection.channel())

    def runner(scenario: Scenario) -> None:
        asyncio.run(asyncio.wait_for(connected(scenario), PATIENCE_SECONDS))

    return runner


async def send(channel: AbstractChannel, queue: AbstractQueue, *bodies: bytes) -> None:
    for body in bodies:
        await channel.default_exchange.publish(aio_pika.Message(body), queue.name)


def test_confirms_each_publish(run: Callable[[Scenario], None]) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        answers = [
            await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)
            for _ in range(20)
        ]
        assert all(isinstance(answer, aiormq.spec.Basic.Ack) for answer in answers)
        assert queue.declaration_result is not None

    run(scenario)


def test_confirms_many_at_once(run: Callable[[Scenario], None]) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        exchange = channel.default_exchange
        await asyncio.gather(
            *(exchange.publish(aio_pika.Message(b"%d" % n), queue.name) for n in range(500))
        )
        bodies = [(await queue.get(no_ack=True)).body for _ in range(500)]
        assert bodies == [b"%d" % number for number in range(500)]

    run(scenario)


def test_the_unroutable_is_returned_under_confirms(
    run: Callable[[Scenario], None], name: str
) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        exchange = channel.default_exchange
        returned = await exchange.publish(aio_pika.Message(b"x"), name)
        assert isinstance(returned, aiormq.abc.DeliveredMessage)
        assert isinstance(returned.delivery, aiormq.spec.Basic.Return)
        dropped = await exchange.publish(aio_pika.Message(b"x"), name, mandatory=False)
        assert isinstance(dropped, aiormq.spec.Basic.Ack)

    run(scenario)


def test_the_queue_iterator_takes_and_acknowledges(run: Callable[[Scenario], None]) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        await channel.set_qos(prefetch_count=5)
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, *(b"%d" % number for number in range(100)))
        taken: list[bytes] = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    taken.append(message.body)
                if len(taken) == 100:
                    break
        assert taken == [b"%d" % number for number in range(100)]
        assert await queue.get(fail=False) is None

    run(scenario)


def test_a_failed_message_is_requeued_in_its_place(run: Callable[[Scenario], None]) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, b"1", b"2")
        message = await queue.get()
        with pytest.raises(ZeroDivisionError):
            async with message.process(requeue=True):
                raise ZeroDivisionError
        again = await queue.get()
        assert (again.body, again.redelivered) == (b"1", True)
        await again.reject(requeue=False)
        assert (await queue.get(no_ack=True)).body == b"2"

    run(scenario)


def test_a_topic_exchange_with_headers_and_a_large_body(run: Callable[[Scenario], None]) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        exchange = await channel.get_exchange("amq.topic")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, f"{queue.name}.*.end")
        body = bytes(range(256)) * 4096
        message = aio_pika.Message(
            body,
            headers={"n": 1, "deep": {"list": [1, {"two": 2}]}},
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            correlation_id="c",
            priority=3,
        )
        await exchange.publish(message, f"{queue.name}.middle.end")
        got = await queue.get(no_ack=True)
        assert got.body == body
        assert got.headers == {"n": 1, "deep": {"list": [1, {"two": 2}]}}
        assert (got.correlation_id, got.priority) == ("c", 3)
        assert got.delivery_mode is aio_pika.DeliveryMode.PERSISTENT
        await queue.unbind(exchange, f"{queue.name}.*.end")

    run(scenario)


def test_request_and_reply(run: Callable[[Scenario], None]) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        requests = await channel.declare_queue(exclusive=True)
        replies = await channel.declare_queue(exclusive=True)

        async def serve(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                answer = aio_pika.Message(message.body[::-1], correlation_id=message.correlation_id)
                assert message.reply_to
                await channel.default_exchange.publish(answer, message.reply_to)

        await requests.consume(serve)
        await channel.default_exchange.publish(
            aio_pika.Message(b"abc", reply_to=replies.name, correlation_id="7"), requests.name
        )
        while (reply := await replies.get(fail=False)) is None:
            await asyncio.sleep(0.01)
        assert (reply.body, reply.correlation_id) == (b"cba", "7")

    run(scenario)


class Line:
    """A TCP line to the broker that can be cut."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ends: list[asyncio.StreamWriter] = []

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remote_reader, remote = await asyncio.open_connection(self.target.host, self.target.port)
        self.ends += [writer, remote]
        await asyncio.gather(self.copy(reader, remote), self.copy(remote_reader, writer))

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    def cut(self) -> None:
        for end in self.ends:
            end.transport.abort()


def test_a_robust_connection_comes_back_with_its_queue_and_consumer(target: Target) -> None:
    """The line is cut; the exclusive queue is declared again and the consumer restored."""

    async def scenario() -> None:
        line = Line(target)
        server = await asyncio.start_server(line.connect, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await aio_pika.connect_robust(
            host="127.0.0.1",
            port=port,
            login=target.user,
            password=target.password,
            reconnect_interval=0.1,
        )
        async with connection, server:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            taken: asyncio.Queue[bytes] = asyncio.Queue()

            async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                await message.ack()
                taken.put_nowait(message.body)

            await queue.consume(take)
            await send(channel, queue, b"before")
            assert await taken.get() == b"before"
            reconnected = asyncio.Event()
            connection.reconnect_callbacks.add(lambda *_: reconnected.set())
            line.cut()
            await reconnected.wait()
            await send(channel, queue, b"after")
            assert await taken.get() == b"after"

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def test_errors_become_aio_pikas(run: Callable[[Scenario], None], name: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(name, passive=True)
        await channel.reopen()
        await channel.declare_queue(name, exclusive=True)
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
            await channel.declare_queue(name, exclusive=True, arguments={"x-max-length": 5})

    run(scenario)


def test_fifty_connections_at_once(broker_url: str) -> None:
    async def one(number: int) -> bytes:
        connection = await aio_pika.connect(broker_url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await send(channel, queue, b"%d" % number)
            message = await queue.get(no_ack=True)
            return message.body

    async def scenario() -> None:
        bodies = await asyncio.gather(*(one(number) for number in range(50)))
        assert bodies == [b"%d" % number for number in range(50)]

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def test_quorum_queues_confirm_deliver_and_requeue(
    run: Callable[[Scenario], None], name: str
) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        quorum = {"x-queue-type": "quorum", "x-delivery-limit": 1}
        queue = await channel.declare_queue(name, durable=True, arguments=quorum)
        try:
            await channel.set_qos(prefetch_count=10)
            await send(channel, queue, b"a", b"b")
            bodies: list[tuple[bytes, bool]] = []
            async with queue.iterator() as messages:
                async for message in messages:
                    bodies.append((message.body, bool(message.redelivered)))
                    if message.body == b"a" and not message.redelivered:
                        await message.nack(requeue=True)
                    else:
                        await message.ack()
                    if len(bodies) == 3:
                        break
            assert sorted(bodies) == [(b"a", False), (b"a", True), (b"b", False)]
        finally:
            await queue.delete(if_unused=False, if_empty=False)

    run(scenario)
