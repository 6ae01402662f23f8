"""pytest-asyncio and aio-pika, with time that the test moves.

python -m pytest test_aio_pika.py
"""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from sluicemq.testing import Admin, Broker

HOUR_MS = 3_600_000


@pytest.mark.asyncio
async def test_a_reminder_comes_after_an_hour(
    amqp_url: str, amqp_broker: Broker, amqp_admin: Admin
) -> None:
    url = f"{amqp_url}?heartbeat=0"  # it would miss some in an hour
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        reminders = await channel.declare_queue("reminders", durable=True)
        waiting = {
            "x-message-ttl": HOUR_MS,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "reminders",
        }
        await channel.declare_queue("later", durable=True, arguments=waiting)
        message = aio_pika.Message(b"pay", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "later")
        assert await reminders.get(fail=False) is None
        await asyncio.to_thread(amqp_broker.advance, "65m")
        await asyncio.to_thread(amqp_admin.wait_until, "reminders", ready=1)
        found = await reminders.get(fail=True)
        assert found.body == b"pay"
        await found.ack()
