"""A real broker for tests: over real sockets, in a process or a thread of its own, with knobs that
cause trouble and a clock that the test moves.

    from sluicemq.testing import Broker

    with Broker() as broker:
        connect(broker.url)

The pytest plugin (`plugin.py`) offers it as fixtures. The broker itself imports nothing of this.
"""

from sluicemq.testing.admin import Admin, Peeked
from sluicemq.testing.broker import Broker
from sluicemq.testing.endpoint import BrokerFailed

__all__ = ["Admin", "Broker", "BrokerFailed", "Peeked"]
