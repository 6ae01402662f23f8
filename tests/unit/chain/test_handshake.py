"""Goal: only who may gets in, with limits both sides keep. Method: the client's methods, one after
the other, right ones and wrong ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.amqp.types import encode_table
from sluicemq.chain.connection.handshake import Handshake
from sluicemq.config import AuthConfig, Config, NetConfig
from sluicemq.errors import ConnectionViolation, HandshakeFailed

from .logins import access_of

PLAIN = b"\0guest\0guest"
TUNE_OK = m.ConnectionTuneOk(channel_max=100, frame_max=8192, heartbeat=7)
OPEN = m.ConnectionOpen(virtual_host="/")


def start_ok(
    response: bytes = PLAIN, mechanism: str = "PLAIN", properties: dict[str, Any] | None = None
) -> m.ConnectionStartOk:
    return m.ConnectionStartOk(
        client_properties=properties or {}, mechanism=mechanism, response=response, locale="en_US"
    )


def handshake(from_loopback: bool = True, **auth: Any) -> Handshake:
    net = NetConfig(channel_max=100, frame_max=8192, heartbeat=60)
    config = Config(net=net, auth=AuthConfig(**auth))
    return Handshake(config, from_loopback, access_of(config))


def after(*some: Method, one: Handshake | None = None) -> Handshake:
    one = one or handshake()
    for method in some:
        one.receive(method)
    return one


def test_whole_handshake() -> None:
    one = handshake()
    start = one.start()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN"]
    assert start.server_properties["capabilities"]["publisher_confirms"] is True
    tune = one.receive(start_ok())
    assert tune == m.ConnectionTune(channel_max=100, frame_max=8192, heartbeat=60)
    assert one.receive(TUNE_OK) is None
    assert not one.done
    assert one.receive(OPEN) == m.ConnectionOpenOk()
    assert one.done
    assert (one.user, one.vhost, one.mechanism) == ("guest", "/", "PLAIN")
    assert (one.channel_max, one.frame_max, one.heartbeat) == (100, 8192, 7)


def amqplain(**fields: Any) -> bytes:
    return encode_table(fields)[4:]


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", PLAIN),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="guest")),
        ("AMQPLAIN", amqplain(LOGIN=b"guest", PASSWORD=b"guest")),
    ],
)
def test_right_password_is_taken(mechanism: str, response: bytes) -> None:
    assert after(start_ok(response, mechanism)).user == "guest"


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0wrong"),
        ("PLAIN", b"\0guest\0"),
        ("PLAIN", b"\0nobody\0guest"),
        ("PLAIN", b"\0\0"),
        ("PLAIN", "\0g\u00fcest\0guest".encode()),
        ("PLAIN", b"\0\xff\0guest"),
        ("PLAIN", b"\0guest\0\xff"),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="wrong")),
        ("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="\udcff")),
        ("AMQPLAIN", amqplain(LOGIN=b"\xed\xa0\x80", PASSWORD=b"\xff")),
    ],
)
def test_wrong_password_or_user_is_refused_alike(mechanism: str, response: bytes) -> None:
    one = handshake()
    with pytest.raises(ConnectionViolation) as refused:
        one.receive(start_ok(response, mechanism))
    assert refused.value.code == 403
    assert refused.value.reply_text == (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )
    assert one.user == ""


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"guest\0guest"),
        ("PLAIN", b"\0guest\0guest\0more"),
        ("PLAIN", b"somebody\0guest\0guest"),
        ("AMQPLAIN", b"\x05LOGI"),
        ("AMQPLAIN", amqplain(LOGIN="guest")),
        ("AMQPLAIN", amqplain(LOGIN=1, PASSWORD="guest")),
        ("AMQPLAIN", b""),
        ("EXTERNAL", b""),
        ("plain", PLAIN),
        ("", PLAIN),
    ],
)
def test_malformed_login_ends_without_a_word(mechanism: str, response: bytes) -> None:
    with pytest.raises(HandshakeFailed):
        after(start_ok(response, mechanism))


def test_guest_may_come_from_this_machine_only() -> None:
    with pytest.raises(ConnectionViolation) as refused:
        after(start_ok(), one=handshake(from_loopback=False))
    assert refused.value.code == 403
    assert after(start_ok(), one=handshake(from_loopback=False, loopback_users=())).user == "guest"
    other = handshake(from_loopback=False, default_user="me", default_pass="s3cret")
    assert after(start_ok(b"\0me\0s3cret"), one=other).user == "me"


@pytest.mark.parametrize(
    "tune",
    [
        {"channel_max": 0},
        {"channel_max": 101},
        {"frame_max": 0},
        {"frame_max": 4095},
        {"frame_max": 8193},
    ],
)
def test_tuning_beyond_the_offer_is_not_allowed(tune: dict[str, int]) -> None:
    """0 would be no limit."""
    asked = {"channel_max": 1, "frame_max": 4096, "heartbeat": 0} | tune
    with pytest.raises(ConnectionViolation) as refused:
        after(start_ok(), m.ConnectionTuneOk(**asked))
    [(name, value)] = tune.items()
    assert refused.value.code == 530
    assert f"{name} = {value} " in refused.value.reply_text


def test_tuning_may_lower_everything() -> None:
    lowest = m.ConnectionTuneOk(channel_max=1, frame_max=4096, heartbeat=0)
    one = after(start_ok(), lowest)
    assert (one.channel_max, one.frame_max, one.heartbeat) == (1, 4096, 0)


def test_there_is_one_virtual_host() -> None:
    with pytest.raises(ConnectionViolation) as refused:
        after(start_ok(), TUNE_OK, m.ConnectionOpen(virtual_host="other"))
    assert refused.value.code == 530
    assert "vhost other not found" in refused.value.reply_text
    assert (refused.value.class_id, refused.value.method_id) == (10, 40)


STEPS: list[Method] = [start_ok(), TUNE_OK, OPEN]
STRANGERS: list[Method] = [m.ChannelOpen(), m.ConnectionClose(0, "", 0, 0), m.ConnectionOpenOk()]
TUNED = 2
"""Steps until then."""


@pytest.mark.parametrize("done", range(4))
def test_steps_out_of_order_end_the_handshake(done: int) -> None:
    """Every method at every stage; only the one that is due is taken. Who is tuned hears why."""
    for method in [*STEPS, *STRANGERS]:
        if done < len(STEPS) and method is STEPS[done]:
            continue
        one = after(*STEPS[:done])
        if done == len(STEPS) and method is OPEN:
            continue  # the reader asks no handshake that is done
        with pytest.raises(HandshakeFailed if done < TUNED else ConnectionViolation):
            one.receive(method)


@pytest.mark.parametrize(
    ("properties", "can"),
    [
        ({}, False),
        ({"capabilities": {"connection.blocked": True}}, True),
        ({"capabilities": {"connection.blocked": False}}, False),
        ({"capabilities": {"connection.blocked": 1}}, False),
        ({"capabilities": {"other": True}}, False),
        ({"capabilities": "connection.blocked"}, False),
        ({"connection.blocked": True}, False),
    ],
)
def test_capabilities_count_when_announced_as_true(properties: dict[str, Any], can: bool) -> None:
    assert after(start_ok(properties=properties)).can("connection.blocked") is can


def test_settings_are_offered_as_configured() -> None:
    config = dataclasses.replace(Config(), net=NetConfig(channel_max=5, heartbeat=0))
    tune = Handshake(config, True, access_of(config)).receive(start_ok())
    assert isinstance(tune, m.ConnectionTune)
    assert (tune.channel_max, tune.heartbeat) == (5, 0)


@pytest.mark.parametrize(
    ("named", "from_loopback", "known"),
    [("guest", True, True), ("guest", False, False), ("nobody", True, False), ("", True, False)],
)
def test_whom_a_certificate_names_must_be_a_user(
    named: str, from_loopback: bool, known: bool
) -> None:
    """And may come from where it may come with a password."""
    config = Config(auth=AuthConfig(auth_mechanisms=("EXTERNAL",)))
    one = Handshake(config, from_loopback, access_of(config), named)
    if known:
        assert after(start_ok(b"", "EXTERNAL"), one=one).user == named
    else:
        with pytest.raises(ConnectionViolation, match="403 ACCESS_REFUSED"):
            one.receive(start_ok(b"", "EXTERNAL"))
