"""unittest: a broker a class, in a thread of the test's own process, a virtual host a test.

python -m unittest test_unittest.py
"""

from __future__ import annotations

import unittest

from shop import place_order, ship_all

from sluicemq.testing import Admin, Broker


class ShopTest(unittest.TestCase):
    """The service against a broker."""

    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker."""
        cls.broker = cls.enterClassContext(Broker(inside=True))

    def setUp(self) -> None:
        """Make a virtual host for this test."""
        vhost = self.broker.make_vhost()
        self.addCleanup(self.broker.drop_vhost, vhost)
        self.admin = Admin(self.broker, vhost)

    def test_what_is_ordered_is_shipped(self) -> None:
        place_order(self.admin.url, 1)
        self.assertEqual(ship_all(self.admin.url), 1)
        self.admin.assert_nothing_left("orders")

    def test_nothing_is_there_at_first(self) -> None:
        self.assertEqual(ship_all(self.admin.url), 0)


if __name__ == "__main__":
    unittest.main()
