"""Goal: what the broker knows of a message before it is routed is what its properties say, and what
RabbitMQ refuses is refused in its words.

Method: properties as a client encodes them, and some that no client would.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.property_traits import traits_in
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.arguments import TIMER_MAX_MS
from sluicemq.model.traits import PERSISTENT, TRANSIENT, PropertyTraits, property_traits


def traits(user: str | None = "me", replies_at: str = "", **properties: object) -> PropertyTraits:
    made = BasicProperties(**properties)  # type: ignore[arg-type]
    return traits_in(made.encode(), user, replies_at)


def refusal(**properties: object) -> str:
    with pytest.raises(ChannelViolation) as told:
        traits(**properties)
    assert told.value.code == 406
    return told.value.reply_text.partition(" - ")[2]


def test_plain_messages_have_one_of_two_traits() -> None:
    assert traits() is TRANSIENT
    assert traits(delivery_mode=1) is TRANSIENT
    assert traits(delivery_mode=2) is PERSISTENT
    assert traits(delivery_mode=2, content_type="text/plain", message_id="7") is PERSISTENT
    assert (PERSISTENT.is_plain, PERSISTENT.persistent, PERSISTENT.ttl_ms) == (True, True, None)


@given(st.booleans(), st.integers(0, TIMER_MAX_MS), st.integers(0, 255))
def test_those_with_one_expiration_and_priority_share_their_traits(
    persistent: bool, ttl_ms: int, priority: int
) -> None:
    asked = {
        "delivery_mode": 2 if persistent else 1,
        "expiration": str(ttl_ms),
        "priority": priority,
    }
    found = traits(**asked)
    assert (found.persistent, found.ttl_ms, found.priority) == (persistent, ttl_ms, priority)
    assert found is traits(**asked, content_type="another")
    assert found.is_plain
    assert not found.is_like(PERSISTENT if persistent else TRANSIENT)


def test_those_that_agree_in_all_but_their_receivers_may_share_a_batch() -> None:
    copied = traits(delivery_mode=2, headers={"CC": ["a"]})
    assert copied.is_like(PERSISTENT)
    assert not copied.is_like(TRANSIENT)
    assert not traits(priority=3).is_like(traits(priority=4))
    assert not traits(expiration="3").is_like(traits(expiration="4"))


def test_receivers_in_headers_are_routing_keys_in_their_order() -> None:
    found = traits(headers={"CC": ["a", "b"], "BCC": ["c"], "other": 1})
    assert found.further_keys == ("a", "b", "c")
    assert not found.is_plain
    assert found.rewritten is not None
    left = BasicProperties.decode(found.rewritten).headers
    assert left == {"CC": ["a", "b"], "other": 1}


def test_without_blind_copies_the_properties_go_on_as_they_came() -> None:
    assert traits(headers={"CC": ["a"]}).rewritten is None


def test_what_is_no_text_among_the_receivers_is_none() -> None:
    assert traits(headers={"CC": ["a", 5, "b"]}).further_keys == ("a", "b")


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_receivers_must_be_a_list(name: str) -> None:
    text = refusal(headers={name: "a"})
    assert text == f'invalid message: {{unacceptable_type_in_header,"{name}",longstr}}'


def test_headers_that_only_look_like_receivers_are_left_alone() -> None:
    found = traits(headers={"text": "\x02CC is not a header"})
    assert (found.further_keys, found.rewritten) == ((), None)


def test_headers_that_somebody_must_read_and_cannot_close_the_connection() -> None:
    raw = BasicProperties(headers={"CC": ["a"]}).encode()
    broken = raw.replace(b"\x02CCA", b"\x02CC?")
    assert broken != raw
    with pytest.raises(ConnectionViolation, match="cannot decode the headers") as told:
        traits_in(broken, None)
    assert told.value.code == 501


@pytest.mark.parametrize(
    ("expiration", "flaw"),
    [
        ("", "no_integer"),
        ("soon", "no_integer"),
        (" 5", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("10s", '{leftover_string,"s"}'),
        ('5"\\', '{leftover_string,"\\"\\\\"}'),
        (str(TIMER_MAX_MS + 1), f"{{value_too_large,{TIMER_MAX_MS + 1}}}"),
    ],
)
def test_an_expiration_that_is_none_is_refused(expiration: str, flaw: str) -> None:
    assert refusal(expiration=expiration) == f"invalid expiration '{expiration}': {flaw}"


def test_the_ends_of_the_range_are_expirations() -> None:
    assert traits(expiration="0").ttl_ms == 0
    assert traits(expiration="+7").ttl_ms == 7
    assert traits(expiration=str(TIMER_MAX_MS)).ttl_ms == TIMER_MAX_MS


def test_an_unknown_delivery_mode_is_refused() -> None:
    assert refusal(delivery_mode=3) == "invalid message: {delivery_mode_unknown,3}"


def test_nobody_publishes_in_anothers_name_but_who_may() -> None:
    assert traits(user_id="me") is TRANSIENT
    text = refusal(user_id="you")
    assert text == "user_id property set to 'you' but authenticated user was 'me'"
    assert traits(user=None, user_id="you") is TRANSIENT


def test_an_asking_reply_to_becomes_the_channels_address() -> None:
    found = traits(replies_at="amq.rabbitmq.reply-to.x.1", reply_to="amq.rabbitmq.reply-to")
    assert found.rewritten is not None
    assert BasicProperties.decode(found.rewritten).reply_to == "amq.rabbitmq.reply-to.x.1"
    text = refusal(reply_to="amq.rabbitmq.reply-to")
    assert text == "fast reply consumer does not exist"
    assert traits(reply_to="a queue") is TRANSIENT


def test_a_reply_address_and_a_blind_copy_are_both_rewritten() -> None:
    found = traits(
        replies_at="there", reply_to="amq.rabbitmq.reply-to", headers={"BCC": ["b"], "kept": True}
    )
    assert found.rewritten is not None
    left = BasicProperties.decode(found.rewritten)
    assert (left.reply_to, left.headers) == ("there", {"kept": True})


def test_traits_are_remembered_up_to_a_bound() -> None:
    assert property_traits.cache_info().maxsize is not None
