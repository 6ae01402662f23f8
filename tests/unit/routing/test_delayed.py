"""Goal: what is a delay, what is none; what bindings do meanwhile. Method: the exchange alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.properties import BasicProperties
from sluicemq.errors import ChannelViolation
from sluicemq.model.definitions import QUEUE, BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.delayed import DELAY_MAX_MS, DELAYED, DelayedExchange, delay_ms, is_holding
from sluicemq.routing.message import Message

Q = Destination(QUEUE, "q")


def exchange(kind: object = "direct") -> DelayedExchange:
    arguments = {"x-delayed-type": kind}
    return DelayedExchange(ExchangeDefinition("x", DELAYED, arguments=arguments))


def message(key: str = "k", **headers: object) -> Message:
    return Message((key,), BasicProperties(headers=headers).encode())  # type: ignore[arg-type]


@given(st.integers(1, DELAY_MAX_MS))
def test_a_delay_is_a_number_in_any_form(number: int) -> None:
    for value in (number, str(number), f"+{number}", float(number)):
        assert delay_ms({"x-delay": value}) == number


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(max_value=0),
        st.integers(DELAY_MAX_MS + 1),
        st.floats(max_value=0.99),
        st.sampled_from([float("nan"), float("inf"), 2.0**32]),
        st.text().filter(lambda text: not text.lstrip("+").isdigit()),
        st.integers(DELAY_MAX_MS + 1).map(str),
        st.binary(),
        st.lists(st.integers()),
    )
)
def test_anything_else_is_none(value: object) -> None:
    assert delay_ms({"x-delay": value}) == 0
    assert delay_ms({}) == delay_ms(None) == 0


def test_bindings_are_those_of_the_other_type() -> None:
    delayed = exchange()
    binding = BindingDefinition("x", "q", QUEUE, "k")
    assert delayed.is_empty
    assert delayed.add(binding)
    assert not delayed.add(binding)
    assert not delayed.is_empty
    assert delayed.find(message()) == [Q]
    assert delayed.find(message("other")) == []
    assert delayed.remove(binding)
    assert delayed.is_empty
    assert delayed.find(message()) == []


def test_a_delayed_message_goes_to_the_holding_queue_alone() -> None:
    delayed = exchange()
    delayed.add(BindingDefinition("x", "q", QUEUE, "k"))
    (found,) = delayed.find(message(**{"x-delay": 5}))
    assert is_holding(found.name)
    assert not is_holding("q")


def test_routes_of_it_are_not_remembered_by_their_key() -> None:
    asked = message()
    exchange().find(asked)
    assert asked.read_content


def test_a_binding_that_the_other_type_refuses_is_refused() -> None:
    with pytest.raises(ChannelViolation):
        exchange("x-consistent-hash").check_binding(BindingDefinition("x", "q", QUEUE, "no number"))
