"""pytest-xdist: tests that run at the same time, and use the same names, do not see each other.
Each process of pytest-xdist has a broker of its own.

python -m pytest -n 2 test_parallel.py
"""

from __future__ import annotations

import pytest
from shop import place_order

from sluicemq.testing import Admin


@pytest.mark.parametrize("number", range(4))
def test_each_order_is_alone(amqp_url: str, amqp_admin: Admin, number: int) -> None:
    place_order(amqp_url, number)
    assert amqp_admin.bodies("orders") == [b'{"order": %d}' % number]
