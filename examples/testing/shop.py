"""A small service, with pika: it ships orders. The tests beside this file are about it."""

from __future__ import annotations

import json

import pika
from pika.adapters.blocking_connection import BlockingChannel


def declare(channel: BlockingChannel) -> None:
    """Make the queues of the service."""
    channel.queue_declare("orders", durable=True)
    channel.queue_declare("shipped", durable=True)


def place_order(url: str, number: int) -> None:
    """Send an order, and wait until the broker has it."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        declare(channel)
        body = json.dumps({"order": number}).encode()
        channel.basic_publish("", "orders", body, pika.BasicProperties(delivery_mode=2))


def ship_all(url: str) -> int:
    """Ship what has been ordered; how many orders that were."""
    shipped = 0
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        declare(channel)
        for method, _, body in channel.consume("orders", inactivity_timeout=0.2):
            if method is None:
                break
            channel.basic_publish("", "shipped", body)
            channel.basic_ack(method.delivery_tag)
            shipped += 1
    return shipped
