"""taskiq over aio-pika: a task, its receiver in the test's event loop, and its result.

python -m pytest test_taskiq.py
"""

from __future__ import annotations

import asyncio

import pytest
from taskiq.api import run_receiver_task
from taskiq.brokers.inmemory_broker import InmemoryResultBackend
from taskiq_aio_pika import AioPikaBroker

from sluicemq.testing import Admin

PATIENCE_S = 60


@pytest.mark.asyncio
async def test_a_task_is_done(amqp_url: str, amqp_admin: Admin) -> None:
    broker = AioPikaBroker(amqp_url).with_result_backend(InmemoryResultBackend())
    broker.is_worker_process = True  # and the one that sends, too

    @broker.task
    async def price(pieces: int, each: int) -> int:
        return pieces * each

    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker))
    try:
        task = await price.kiq(3, 4)
        result = await task.wait_result(timeout=PATIENCE_S)
        assert result.return_value == 12
    finally:
        receiver.cancel()
        await asyncio.gather(receiver, return_exceptions=True)
        await broker.shutdown()
    await asyncio.to_thread(amqp_admin.assert_nothing_left)
