"""Goal: two nodes of one cluster know each other when a handshake is over; nobody else comes that
far, whatever he sends, replays or changes, and everybody hears why.

Method: both sides without sockets; every byte of what is said changed once; what was said on one
connection said on another; and the example in docs/cluster-wire.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.cluster import handshake, introduction
from sluicemq.cluster.cluster_port import CONTROL, DATA
from sluicemq.cluster.handshake import (
    AcceptorHandshake,
    DialerHandshake,
    HandshakeRefused,
    RefusedByPeer,
    checked_secret,
)
from sluicemq.cluster.introduction import (
    CHALLENGE,
    HELLO,
    HELLO_BODY,
    INTRODUCTION,
    MAGIC,
    Introduction,
    NodeCard,
    handshake_message,
)
from sluicemq.errors import Refused
from sluicemq.limits import LINK_HANDSHAKE_BYTES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cluster-wire.md"
SECRET = b"a secret of some length"
ONE = Introduction(NodeCard("c", "n1", 1, 4, b"h" * 16, b"s" * 16), CONTROL, 3, 2)
TWO = Introduction(NodeCard("c", "n2", 2, 7, b"H" * 16, b"S" * 16), CONTROL, 3, 1)
NONCES = b"1" * 32, b"2" * 32


def sides(
    secret: bytes = SECRET, nonces: tuple[bytes, bytes] = NONCES
) -> tuple[DialerHandshake, AcceptorHandshake]:
    return DialerHandshake(secret, nonces[0], ONE), AcceptorHandshake(SECRET, nonces[1])


def said(dialer: DialerHandshake, acceptor: AcceptorHandshake) -> list[bytes]:
    """All that is said in a handshake in which all goes well, in its order."""
    hello = dialer.begin()
    challenge = acceptor.receive(hello)
    proof = dialer.receive(challenge)
    assert acceptor.receive(proof) == b""
    answer = acceptor.accept(TWO)
    assert dialer.receive(answer) == b""
    return [hello, challenge, proof, answer]


def test_both_know_each_other() -> None:
    dialer, acceptor = sides()
    said(dialer, acceptor)
    assert (dialer.other, acceptor.other) == (TWO, ONE)
    assert dialer.is_over and acceptor.is_over
    assert dialer.version == acceptor.version == 1


def test_the_secret_is_never_said() -> None:
    assert SECRET not in b"".join(said(*sides()))


@given(st.integers(1, 40))
def test_in_parts_and_with_what_comes_behind(size: int) -> None:
    dialer, acceptor = sides()
    hello, _, proof, _ = said(*sides())
    for part in (hello, proof):
        for start in range(0, len(part), size):
            answer = acceptor.receive(part[start : start + size])
            if answer:
                dialer.begin()
                assert dialer.receive(answer) == proof
    assert acceptor.other == ONE
    raw = acceptor.accept(TWO) + b"the first frame"
    for start in range(0, len(raw), size):
        if not dialer.is_over:
            dialer.receive(raw[start : start + size])
            given_up = dialer.rest + raw[start + size :]
    assert dialer.other == TWO
    assert given_up == b"the first frame"


def test_who_does_not_know_the_secret_is_refused() -> None:
    dialer, acceptor = sides(secret=b"another secret of some length")
    proof = dialer.receive(acceptor.receive(dialer.begin()))
    with pytest.raises(HandshakeRefused, match=r"^it does not know the shared secret of this clus"):
        acceptor.receive(proof)
    assert acceptor.other is None
    with pytest.raises(RefusedByPeer, match=r"^it does not know"):
        dialer.receive(acceptor.refusal(handshake.WRONG_SECRET))


def test_who_is_connected_to_has_to_know_the_secret_too() -> None:
    dialer, _ = sides()
    _, acceptor = sides()
    acceptor.secret = b"another secret of some length"
    dialer.receive(acceptor.receive(dialer.begin()))
    acceptor.other = ONE
    with pytest.raises(HandshakeRefused, match="does not know the shared secret"):
        dialer.receive(acceptor.accept(TWO))
    assert dialer.other is None


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_changed_byte_is_never_believed(number: int) -> None:
    for at in range(len(said(*sides())[number])):
        for change in (1, 128):
            dialer, acceptor = sides()
            try:
                raw = changed(dialer.begin(), number == 0, at, change)
                raw = changed(acceptor.receive(raw), number == 1, at, change)
                raw = changed(dialer.receive(raw), number == 2, at, change)
                acceptor.receive(raw)
                if acceptor.other is not None:
                    assert number == 3
                    dialer.receive(changed(acceptor.accept(TWO), True, at, change))
            except (HandshakeRefused, RefusedByPeer):
                pass
            assert dialer.other is None, f"byte {at} of message {number}"


def changed(raw: bytes, really: bool, at: int, change: int) -> bytes:
    data = bytearray(raw)
    if really:
        data[at] ^= change
    return bytes(data)


def test_what_was_said_once_is_of_no_use_again() -> None:
    hello, challenge, proof, answer = said(*sides())
    _, acceptor = sides(nonces=(NONCES[0], b"3" * 32))
    acceptor.receive(hello)
    with pytest.raises(HandshakeRefused, match="secret"):
        acceptor.receive(proof)
    dialer, _ = sides(nonces=(b"4" * 32, NONCES[1]))
    dialer.begin()
    dialer.receive(challenge)
    with pytest.raises(HandshakeRefused, match="secret"):
        dialer.receive(answer)


def test_a_proof_is_not_sent_back_as_ones_own() -> None:
    dialer, _ = sides()
    dialer.begin()
    challenge = said(*sides())[1]
    proof = dialer.receive(challenge)
    with pytest.raises(HandshakeRefused, match="secret"):
        dialer.receive(proof)


def hello_of(low: int, high: int) -> bytes:
    return MAGIC + handshake_message(HELLO, HELLO_BODY.pack(low, high, b"n" * 32))


REFUSED = {
    "amqp": (b"AMQP\0\0\x09\x01", "what it sent is not how a node of a cluster begins"),
    "later": (
        hello_of(2, 3),
        "it speaks versions 2 to 3 of the protocol between nodes, and this node 1 to 1",
    ),
    "earlier": (
        hello_of(0, 0),
        "it speaks version 0 of the protocol between nodes, and this node 1 to 1",
    ),
    "large": (
        MAGIC + b"\xff\xff\x01",
        "it began with a message of 65535 bytes; at most 1024 are allowed",
    ),
    "another": (MAGIC + handshake_message(CHALLENGE, b""), "it said 2 where 1 had its turn"),
    "short": (MAGIC + handshake_message(HELLO, b"abc"), "it said 3 bytes where 36 belong"),
    "hasty": (hello_of(1, 1) + bytes(1025), "it goes on before it was answered"),
    "no proof": (
        hello_of(1, 1) + handshake_message(INTRODUCTION, b""),
        "it does not know the shared secret of this cluster",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_who_is_refused_hears_why(what: str) -> None:
    raw, sentence = REFUSED[what]
    acceptor = AcceptorHandshake(SECRET, NONCES[1])
    if what == "hasty":
        dialer = DialerHandshake(SECRET, NONCES[0], ONE)
        raw = dialer.receive(acceptor.receive(dialer.begin())) + raw[-1025:]
    with pytest.raises(HandshakeRefused) as raised:
        acceptor.receive(raw)
    assert str(raised.value) == sentence
    dialer = DialerHandshake(SECRET, NONCES[0], ONE)
    dialer.begin()
    if acceptor.version:
        dialer.receive(said(*sides())[1])
    with pytest.raises(RefusedByPeer) as told:
        dialer.receive(acceptor.refusal(sentence))
    assert str(told.value) == sentence


def test_two_versions_agree_on_the_highest_of_both() -> None:
    acceptor = AcceptorHandshake(SECRET, NONCES[1])
    acceptor.receive(hello_of(1, 9))
    assert acceptor.version == 1


def test_a_refusal_cannot_steer_a_terminal() -> None:
    dialer, _ = sides()
    dialer.begin()
    with pytest.raises(RefusedByPeer) as told:
        dialer.receive(MAGIC + introduction.refusal_message("\x1b[2J\n\u202e" + "x" * 5000))
    assert str(told.value).isprintable() and str(told.value).isascii()
    assert len(str(told.value)) < 2 * LINK_HANDSHAKE_BYTES


@given(st.lists(st.binary(max_size=80), max_size=8), st.booleans())
def test_any_bytes_are_refused_or_wait(parts: list[bytes], begins_well: bool) -> None:
    acceptor = AcceptorHandshake(SECRET, NONCES[1])
    try:
        acceptor.receive(MAGIC if begins_well else b"")
        for part in parts:
            acceptor.receive(part)
            assert len(acceptor.reader.data) <= LINK_HANDSHAKE_BYTES + 3
    except (HandshakeRefused, RefusedByPeer) as refusal:
        assert str(refusal) or begins_well
    assert acceptor.other is None


@given(st.binary(max_size=120))
def test_any_introduction_is_read_as_it_was_meant_or_not_at_all(raw: bytes) -> None:
    try:
        read = introduction.decode_introduction(raw)
    except introduction.BrokenHandshake:
        return
    assert read.encode() == raw


@pytest.mark.parametrize("connection", [CONTROL, DATA])
def test_an_introduction_is_read_as_it_was_meant(connection: object) -> None:
    card = NodeCard("Ünïcode" * 20, "n" * 255, 2**32 - 1, 2**32 - 1, bytes(16), b"x" * 16)
    own = Introduction(card, CONTROL if connection is CONTROL else DATA, 2**64 - 1, 0)
    assert introduction.decode_introduction(own.encode()) == own


def test_a_secret_has_to_be_long() -> None:
    assert checked_secret(b" 0123456789abcdef\n") == b"0123456789abcdef"
    with pytest.raises(Refused, match=r"has 3 bytes; it must have at least 16 random ones$"):
        checked_secret(b"abc\n")


def test_the_example_of_the_document() -> None:
    _, _, example = DOCUMENT.read_text(encoding="utf-8").partition("## Example of a handshake")
    (block,) = re.findall(r"```text\n(.*?)```", example.partition("\n## ")[0], re.DOTALL)
    raw = bytes.fromhex("".join(line.partition("  ")[0] for line in block.splitlines()))
    assert raw == b"".join(said(*sides())), handshake_example(said(*sides()))


def handshake_example(parts: list[bytes]) -> str:
    """What the document has to have, for who changes the protocol."""
    raw = b"".join(parts)
    lines = [raw[at : at + 16].hex(" ") for at in range(0, len(raw), 16)]
    return "\n" + "\n".join(lines)
