"""The exchange types that need no other, under the names that clients use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.routing.direct import DirectExchange
from sluicemq.routing.fanout import FanoutExchange
from sluicemq.routing.headers import HeadersExchange
from sluicemq.routing.spreading import (
    ConsistentHashExchange,
    ModulusHashExchange,
    RandomExchange,
)
from sluicemq.routing.topic import TopicExchange

if TYPE_CHECKING:
    from sluicemq.routing.exchange import Exchange

PLAIN_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
    "x-consistent-hash": ConsistentHashExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-random": RandomExchange,
}
