"""FastStream: the application's own broker object, connected to a real broker.

python -m pytest test_faststream.py
"""

from __future__ import annotations

import asyncio

import pytest
from faststream.rabbit import RabbitBroker

from sluicemq.testing import Admin

PATIENCE_S = 60


@pytest.mark.asyncio
async def test_a_handler_answers_an_order(amqp_url: str, amqp_admin: Admin) -> None:
    broker = RabbitBroker(amqp_url)
    handled: asyncio.Queue[int] = asyncio.Queue()

    @broker.subscriber("orders")
    @broker.publisher("shipped")
    async def ship(number: int) -> str:
        await handled.put(number)
        return f"order {number}"

    await asyncio.to_thread(amqp_admin.declare_queue, "shipped", durable=False)
    async with broker:
        await broker.start()
        await broker.publish(7, queue="orders")
        assert await asyncio.wait_for(handled.get(), PATIENCE_S) == 7
        await asyncio.to_thread(amqp_admin.wait_until, "shipped", ready=1)
    assert await asyncio.to_thread(amqp_admin.bodies, "shipped") == [b"order 7"]
