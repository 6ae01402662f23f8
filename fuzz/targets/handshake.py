"""What comes to a node before anybody has proven who he is (cluster/handshake.py)."""

from __future__ import annotations

from collections.abc import Iterator

from sluicemq.cluster.cluster_port import CONTROL
from sluicemq.cluster.handshake import (
    AcceptorHandshake,
    DialerHandshake,
    HandshakeRefused,
    PeerHandshake,
    RefusedByPeer,
)
from sluicemq.cluster.introduction import MAGIC, Introduction, NodeCard, refusal_message
from targets.target import Target

SECRET = b"a secret of some length"
ONE = Introduction(NodeCard("c", "n1", 1, 4, b"h" * 16, b"s" * 16), CONTROL, 3, 2)
PART = 7


def sides() -> tuple[DialerHandshake, AcceptorHandshake]:
    """Both sides of a connection, at its beginning."""
    return DialerHandshake(SECRET, b"1" * 32, ONE), AcceptorHandshake(SECRET, b"2" * 32)


def heard(side: PeerHandshake, data: bytes, size: int) -> tuple[bytes, str]:
    """What is answered to data that comes in parts of that many bytes, and why it is refused."""
    answer = b""
    try:
        for start in range(0, len(data), size):
            answer += side.receive(data[start : start + size])
    except (HandshakeRefused, RefusedByPeer) as refusal:
        return answer, str(refusal) or "refused"
    return answer, ""


def decode(data: bytes) -> object:
    """All that an acceptor makes of it."""
    return heard(sides()[1], data, max(1, len(data)))


def check(data: bytes) -> None:
    """The same is answered in whatever parts it comes, and nobody is believed."""
    for number in range(2):
        whole, parts = sides()[number], sides()[number]
        for side in (whole, parts):
            if isinstance(side, DialerHandshake):
                side.begin()
        answer, why = heard(whole, data, max(1, len(data)))
        again, why_again = heard(parts, data, PART)
        assert bool(why) == bool(why_again)
        assert answer.startswith(again) or again.startswith(answer)
        assert whole.other is None
        assert parts.other is None


def seeds() -> Iterator[bytes]:
    """What is said on a connection on which all goes well, and a refusal."""
    dialer, acceptor = sides()
    hello = dialer.begin()
    challenge = acceptor.receive(hello)
    yield hello + dialer.receive(challenge)[:-1]
    yield challenge
    yield MAGIC + refusal_message("it is somebody else")


TARGET = Target("handshake", check, decode, seeds, base_bytes=20_000, factor=60)
