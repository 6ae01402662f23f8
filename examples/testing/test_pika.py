"""pytest and pika: a virtual host a test, and what goes wrong on demand.

python -m pytest test_pika.py
"""

from __future__ import annotations

import pika.exceptions
import pytest
from shop import place_order, ship_all

from sluicemq.testing import Admin, Broker


def test_what_is_ordered_is_shipped(amqp_url: str, amqp_admin: Admin) -> None:
    place_order(amqp_url, 1)
    assert ship_all(amqp_url) == 1
    amqp_admin.assert_nothing_left("orders")
    assert amqp_admin.bodies("shipped") == [b'{"order": 1}']


def test_who_orders_hears_that_it_was_refused(
    amqp_url: str, amqp_broker: Broker, amqp_admin: Admin
) -> None:
    place_order(amqp_url, 1)
    amqp_broker.nack_next(1)
    with pytest.raises(pika.exceptions.NackError):
        place_order(amqp_url, 2)
    assert amqp_admin.counts("orders").ready == 1


def test_an_order_outlives_the_broker(amqp_url: str, amqp_broker: Broker) -> None:
    place_order(amqp_url, 1)
    amqp_broker.kill()
    assert ship_all(amqp_url) == 1
