"""Direct and fanout exchanges: matching, order, bindings that differ in their arguments only."""

import pytest

from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition
from sluicemq.routing.direct import DirectExchange
from sluicemq.routing.exchange import Exchange
from sluicemq.routing.fanout import FanoutExchange


def binding(key: str, queue: str, **arguments: object) -> BindingDefinition:
    return BindingDefinition("x", queue, routing_key=key, arguments=arguments)


def matched(exchange: Exchange, key: str) -> list[str]:
    return [destination.name for destination in exchange.match(key)]


def test_direct_matches_its_key_only_in_order_of_binding() -> None:
    exchange = DirectExchange(ExchangeDefinition("x"))
    for key, queue in (("k", "b"), ("other", "c"), ("k", "a")):
        exchange.add(binding(key, queue))
    assert matched(exchange, "k") == ["b", "a"]
    assert matched(exchange, "other") == ["c"]
    assert matched(exchange, "nobody's") == []


def test_direct_forgets_a_key_with_its_last_binding() -> None:
    exchange = DirectExchange(ExchangeDefinition("x"))
    exchange.add(binding("k", "a"))
    assert exchange.remove(binding("k", "a"))
    assert exchange.table == {}


def test_fanout_ignores_keys_and_names_no_queue_twice() -> None:
    exchange = FanoutExchange(ExchangeDefinition("x", "fanout"))
    for key, queue in (("1", "b"), ("2", "a"), ("3", "b")):
        assert exchange.add(binding(key, queue))
    assert matched(exchange, "anything") == ["b", "a"]
    exchange.remove(binding("1", "b"))
    assert matched(exchange, "anything") == ["a", "b"]


@pytest.mark.parametrize("kind", [DirectExchange, FanoutExchange])
def test_arguments_tell_bindings_apart(kind: type[Exchange]) -> None:
    exchange = kind(ExchangeDefinition("x"))
    assert exchange.add(binding("k", "q", a=1))
    assert exchange.add(binding("k", "q", a=True))
    assert not exchange.add(binding("k", "q", a=1))
    assert matched(exchange, "k") == ["q"]
    assert exchange.remove(binding("k", "q", a=1))
    assert matched(exchange, "k") == ["q"]
    assert not exchange.is_empty
    assert exchange.remove(binding("k", "q", a=True))
    assert matched(exchange, "k") == []
    assert exchange.is_empty
