"""Direct reply-to, seen frame by frame: addresses, who hears what, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pamqp.frame
import pytest
from pamqp import commands
from pamqp.base import Frame as Command
from pamqp.header import ContentHeader

from support.broker import Target
from support.peer import (
    METHOD,
    PATIENCE_SECONDS,
    Peer,
    call,
    describe,
    frame,
    long,
    publish,
    raw_method,
    short,
)
from support.peer import Frame as Raw

Basic, Channel, Confirm = commands.Basic, commands.Channel, commands.Confirm
Exchange, Queue, Tx = commands.Exchange, commands.Queue, commands.Tx

PSEUDO = "amq.rabbitmq.reply-to"
CONSUME = call(Basic.Consume(queue=PSEUDO, consumer_tag="replies", no_ack=True))
ASKING = b"\x02\x00" + short(PSEUDO)
"""Properties that ask for a reply."""
REFUSED = "channel 406 PRECONDITION_FAILED - "


@pytest.fixture
def peer(target: Target, name: str) -> Iterator[Peer]:
    """The client on channel 1, the server on channel 2 with an exclusive queue of requests."""
    with Peer(target) as opened:
        opened.log_in().open(1, 2)
        opened.send(call(Queue.Declare(queue=name, exclusive=True), 2)).expect("Queue.DeclareOk")
        yield opened


def reply_to(raw: Raw | None) -> str:
    """Out of a header frame."""
    assert raw is not None
    decoded = pamqp.frame.unmarshal(frame(*raw))[2]
    assert isinstance(decoded, ContentHeader)
    return str(decoded.properties.reply_to)


def address(peer: Peer, name: str, properties: bytes = ASKING) -> str:
    """Consume, publish a request, and fetch it as the server does."""
    peer.send(CONSUME).expect("Basic.ConsumeOk")
    return asked(peer, name, properties)


def asked(peer: Peer, name: str, properties: bytes = ASKING) -> str:
    peer.send(publish(name, b"", properties=properties))
    return fetched(peer, name)


def fetched(peer: Peer, name: str) -> str:
    get(peer, name)
    return reply_to(peer.read())


def get(peer: Peer, name: str) -> None:
    """As far as basic.get-ok: the message was published on another channel, so it may take a
    while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while peer.send(call(Basic.Get(queue=name, no_ack=True), 2)).verdict() != "Basic.GetOk":
        assert time.monotonic() < deadline


def declare(queue: str, passive: bool, nowait: bool = False) -> bytes:
    """By hand: to the other codec some addresses are no names."""
    bits = passive | nowait << 4
    return raw_method(2, 50, 10, b"\0\0" + short(queue) + bytes([bits]) + long(b""))


def heard(peer: Peer, key: str, body: bytes) -> None:
    deliver = peer.expect("Basic.Deliver")
    assert (deliver.consumer_tag, deliver.routing_key, deliver.exchange) == ("replies", key, "")
    assert not deliver.redelivered
    assert peer.content() == body


def test_a_reply_comes_back_to_the_channel_that_asked(peer: Peer, name: str) -> None:
    key = address(peer, name)
    assert key.startswith(PSEUDO + ".")
    for body in (b"one", b"two", b""):
        peer.send(publish(key, body, channel=2))
        heard(peer, key, body)
    peer.send(publish(key, b"3", channel=2), publish(key, b"4" * 100_000, channel=2))
    heard(peer, key, b"3")
    heard(peer, key, b"4" * 100_000)


def test_each_channel_has_an_address_of_its_own(peer: Peer, name: str) -> None:
    key = address(peer, name)
    assert asked(peer, name) == key
    peer.open(3).send(call(Basic.Consume(queue=PSEUDO, consumer_tag="t", no_ack=True), 3))
    peer.expect("Basic.ConsumeOk")
    peer.send(publish(name, b"", properties=ASKING, channel=3))
    other = fetched(peer, name)
    assert other != key
    peer.send(publish(other, b"x", channel=2))
    deliver = peer.read()
    assert deliver is not None
    assert deliver.channel == 3


def test_an_address_comes_from_another_connection_too(
    peer: Peer, target: Target, name: str
) -> None:
    key = address(peer, name)
    with Peer(target) as server:
        server.log_in(frame_max=4096).open().send(publish(key, b"far"))
        heard(peer, key, b"far")


def test_other_reply_addresses_are_left_alone(peer: Peer, name: str) -> None:
    for text in ("reply", PSEUDO + ".x", PSEUDO + "x", ""):
        peer.send(publish(name, b"", properties=b"\x02\x00" + short(text)))
        assert fetched(peer, name) == text


def test_all_other_properties_stay(peer: Peer, name: str) -> None:
    everything = commands.Basic.Properties(
        content_type="t",
        content_encoding="e",
        headers={"reply": PSEUDO},
        delivery_mode=2,
        priority=3,
        correlation_id=PSEUDO,
        reply_to=PSEUDO,
        expiration="60000",
        message_id="m",
        message_type="y",
        user_id="guest",
        app_id="a",
    )
    peer.send(CONSUME).expect("Basic.ConsumeOk")
    peer.send(publish(name, b"", properties=everything.marshal()))
    get(peer, name)
    raw = peer.read()
    key = reply_to(raw)
    assert key.startswith(PSEUDO + ".")
    everything.reply_to = key
    assert raw is not None
    assert raw.payload[12:] == everything.marshal()


def test_a_reply_is_not_routed_as_far_as_confirms_and_returns_go(peer: Peer, name: str) -> None:
    key = address(peer, name)
    peer.send(call(Confirm.Select(), 2)).expect("Confirm.SelectOk")
    peer.send(publish(key, b"x", channel=2, mandatory=True))
    said: list[str] = []
    while len(said) < 3 and (got := peer.read()) is not None:
        if got.kind == METHOD:
            said.append(describe(got))
    assert sorted(said) == ["Basic.Ack", "Basic.Deliver", "Basic.Return"]
    assert said.index("Basic.Return") < said.index("Basic.Ack")


def test_a_reply_to_nobody_is_dropped(peer: Peer, name: str) -> None:
    key = address(peer, name)
    for wrong in (key + "x", key[:-3], PSEUDO + ".", PSEUDO + ".ä", PSEUDO + ".nonsense", PSEUDO):
        peer.send(publish(wrong, b"x", channel=2))
    assert peer.is_silent()
    peer.send(call(Basic.Cancel("replies"))).expect("Basic.CancelOk")
    peer.send(publish(key, b"x", channel=2))
    assert peer.is_silent()
    peer.send(CONSUME).expect("Basic.ConsumeOk")
    peer.send(publish(key, b"x", channel=2))
    assert peer.is_silent()
    assert asked(peer, name) != key


def test_a_reply_after_the_channel_is_gone_is_dropped(peer: Peer, name: str) -> None:
    key = address(peer, name)
    peer.send(call(Channel.Close(200, "", 0, 0))).expect("Channel.CloseOk")
    peer.send(publish(key, b"x", channel=2))
    peer.open(1).send(CONSUME).expect("Basic.ConsumeOk")
    peer.send(publish(key, b"x", channel=2))
    assert peer.is_silent()


def test_declaring_tells_whether_an_address_is_there(peer: Peer, name: str) -> None:
    key = address(peer, name)
    for passive in (True, False):
        for queue in (key, PSEUDO):
            peer.send(declare(queue, passive))
            said = peer.expect("Queue.DeclareOk")
            assert (said.queue, said.message_count, said.consumer_count) == (queue, 0, 1)
    peer.send(declare(key, True, True))
    assert peer.is_silent()
    peer.send(call(Basic.Cancel("replies"))).expect("Basic.CancelOk")
    peer.send(declare(key, True))
    assert peer.verdict() == f"channel 404 NOT_FOUND - no queue '{key}' in vhost '/' (50.10)"


@pytest.mark.parametrize("queue", [PSEUDO + ".nosuch", PSEUDO + "x", PSEUDO + "."])
def test_no_address_can_be_declared(peer: Peer, queue: str) -> None:
    peer.send(declare(queue, False))
    assert peer.verdict() == f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/' (50.10)"


@pytest.mark.parametrize(
    ("commands", "verdict"),
    [
        ([publish("x", properties=ASKING)], "fast reply consumer does not exist (60.40)"),
        (
            [CONSUME, CONSUME],
            "reply consumer already set (60.20)",
        ),
        (
            [call(Basic.Consume(queue=PSEUDO, consumer_tag="x"))],
            "reply consumer cannot acknowledge (60.20)",
        ),
        (
            [CONSUME, call(Basic.Consume(queue=PSEUDO, consumer_tag="x"))],
            "reply consumer cannot acknowledge (60.20)",
        ),
        (
            [CONSUME, call(Basic.Cancel("replies")), publish("x", properties=ASKING)],
            "fast reply consumer does not exist (60.40)",
        ),
    ],
    ids=["nobody listens", "twice", "with acks", "both", "cancelled"],
)
def test_what_is_refused(peer: Peer, commands: list[bytes], verdict: str) -> None:
    peer.send(*commands)
    while (said := peer.verdict()) in ("Basic.ConsumeOk", "Basic.CancelOk"):
        pass
    assert said == REFUSED + verdict


@pytest.mark.parametrize(
    "command",
    [
        Basic.Get(queue=PSEUDO),
        Queue.Purge(queue=PSEUDO),
        Queue.Bind(queue=PSEUDO, exchange="amq.direct", routing_key="k"),
        Basic.Consume(queue=PSEUDO + ".x", no_ack=True),
    ],
    ids=["get", "purge", "bind", "consume an address"],
)
def test_it_is_no_queue(peer: Peer, command: Command) -> None:
    peer.send(CONSUME).expect("Basic.ConsumeOk")
    peer.send(call(command))
    assert peer.verdict().startswith(f"channel 404 NOT_FOUND - no queue '{PSEUDO}")


def test_deleting_it_is_fine_and_does_nothing(peer: Peer, name: str) -> None:
    key = address(peer, name)
    peer.send(call(Queue.Delete(queue=PSEUDO))).expect("Queue.DeleteOk")
    peer.send(publish(key, b"x", channel=2))
    heard(peer, key, b"x")


def test_a_consumer_tag_is_made_up_when_there_is_none(peer: Peer) -> None:
    peer.send(call(Basic.Consume(queue=PSEUDO, no_ack=True)))
    assert peer.expect("Basic.ConsumeOk").consumer_tag.startswith("amq.ctag-")


def test_a_tag_in_use_is_not_for_replies(peer: Peer, name: str) -> None:
    peer.send(call(Basic.Consume(queue=name, consumer_tag="replies"))).expect("Basic.ConsumeOk")
    peer.send(CONSUME)
    said = "connection 530 NOT_ALLOWED - attempt to reuse consumer tag 'replies' (60.20)"
    assert peer.verdict() == said


def test_consume_and_cancel_without_waiting(peer: Peer, name: str) -> None:
    peer.send(call(Basic.Consume(queue=PSEUDO, consumer_tag="replies", no_ack=True, nowait=True)))
    key = asked(peer, name)
    peer.send(publish(key, b"x", channel=2))
    heard(peer, key, b"x")
    peer.send(call(Basic.Cancel("replies", nowait=True)), CONSUME).expect("Basic.ConsumeOk")


def test_copies_reach_reply_addresses_too(peer: Peer, name: str) -> None:
    """A server may answer to an address and to a queue at once."""
    key = address(peer, name)
    properties = Basic.Properties(headers={"CC": [key]}).marshal()
    peer.send(publish(name, b"x", channel=2, properties=properties))
    heard(peer, name, b"x")
    get(peer, name)


def test_only_the_default_exchange_leads_there(peer: Peer, name: str) -> None:
    key = address(peer, name)
    peer.send(publish(key, b"x", exchange="amq.direct", channel=2))
    assert peer.is_silent()


def test_a_returned_request_has_the_address(peer: Peer) -> None:
    peer.send(CONSUME).expect("Basic.ConsumeOk")
    peer.send(publish("nobody", b"x", properties=ASKING, mandatory=True)).expect("Basic.Return")
    assert reply_to(peer.read()).startswith(PSEUDO + ".")


def test_requests_in_one_piece_of_data(peer: Peer, name: str) -> None:
    """Plain ones among them stay what they are."""
    peer.send(CONSUME).expect("Basic.ConsumeOk")
    plain = b"\x02\x00" + short("mine")
    peer.send(*[publish(name, b"", properties=raw) for raw in (ASKING, ASKING, plain, ASKING)])
    found = [fetched(peer, name) for _ in range(4)]
    assert [text == "mine" for text in found] == [False, False, True, False]
    assert len(set(found)) == 2


def test_delivery_tags_of_others_go_on(peer: Peer, name: str) -> None:
    key = address(peer, name)
    peer.send(publish(key, b"x", channel=2))
    heard(peer, key, b"x")
    peer.send(publish(name, b"y"), call(Basic.Get(queue=name)))
    tag = peer.expect("Basic.GetOk").delivery_tag
    assert peer.content() == b"y"
    peer.send(call(Basic.Ack(tag)))
    assert peer.is_silent()


def test_a_reply_in_a_transaction_goes_at_once(peer: Peer, name: str) -> None:
    """Only queues wait for the commit."""
    key = address(peer, name)
    peer.send(call(Tx.Select(), 2)).expect("Tx.SelectOk")
    peer.send(publish(key, b"x", channel=2))
    heard(peer, key, b"x")
    peer.send(call(Tx.Rollback(), 2)).expect("Tx.RollbackOk")
