"""How two nodes prove to each other that they know the shared secret, and say who they are, before
anything else is said on a connection. Bytes in, bytes out:

    who connects                           who is connected to
    hello         versions, nonce   ->
                                    <-     challenge     version, nonce
    introduction  fields, proof     ->
                                    <-     introduction  fields, proof

A proof is an HMAC-SHA256, by the secret, of everything that was said before on this connection, in
both directions, and of the fields with which it comes; who connects proves first. So the secret is
never sent, no proof is of use on another connection, and nobody can force a lower version on the
two. Either side may answer with a sentence that refuses; before its sender's proof that may come
from anybody.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from struct import Struct
from typing import Any, Final

from sluicemq.cluster.introduction import (
    CHALLENGE,
    CHALLENGE_BODY,
    HELLO,
    HELLO_BODY,
    INTRODUCTION,
    MAGIC,
    NONCE_BYTES,
    REFUSAL,
    VERSION_MAX,
    VERSION_MIN,
    BrokenHandshake,
    HandshakeReader,
    Introduction,
    decode_introduction,
    handshake_message,
    refusal_message,
)
from sluicemq.errors import Refused, SluiceError
from sluicemq.limits import LINK_HANDSHAKE_BYTES, LINK_SECRET_BYTES
from sluicemq.text import printable

PROOF_BYTES: Final = sha256().digest_size
DIALER: Final = b"sluicemq dialer"
ACCEPTOR: Final = b"sluicemq acceptor"
"""What a proof begins with: that of one side is none of the other's."""

WRONG_SECRET: Final = "it does not know the shared secret of this cluster"


class HandshakeRefused(SluiceError):
    """This node refuses the other one; the sentence is for its log, and for the other node."""


class RefusedByPeer(SluiceError):
    """The other node refuses this one, for the reason that it gives: printable, and not proven."""


def checked_secret(raw: bytes) -> bytes:
    """Return the shared secret from the content `raw` of a file, without white space around it.
    Raises Refused when it is short enough to be guessed."""
    secret = raw.strip()
    if len(secret) < LINK_SECRET_BYTES:
        raise Refused(
            f"the shared secret of the cluster has {len(secret)} bytes; it must have at least "
            f"{LINK_SECRET_BYTES} random ones"
        )
    return secret


class PeerHandshake:
    """One side of a handshake. When it `is_over`, `other` is proven, and `rest` has the bytes
    behind the handshake."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self.secret = secret
        self.nonce = nonce
        self.reader = HandshakeReader()
        self.transcript = sha256()
        """Of all that was said, in both directions, in its order."""
        self.version = 0
        """The version of the protocol that was agreed on; 0: none was yet."""
        self.other: Introduction | None = None
        """What the other side has said of itself, and proven; None: nothing yet."""
        self.is_over = False

    @property
    def rest(self) -> bytes:
        """Return the bytes behind the last message of the handshake."""
        return bytes(self.reader.data)

    def receive(self, data: bytes) -> bytes:
        """Take received bytes, cut anywhere; return what is to be written. Raises HandshakeRefused,
        and RefusedByPeer."""
        answer = b""
        try:
            self.reader.receive(data)
            while not self.is_over and self.waits_for_peer():
                message = self.reader.next()
                if message is None:
                    break
                kind, body = message
                if kind == REFUSAL:
                    raise RefusedByPeer(printable(body.decode(errors="backslashreplace")))
                answer += self.answer_to(kind, body)
        except BrokenHandshake as error:
            raise HandshakeRefused(str(error)) from error
        return answer

    def waits_for_peer(self) -> bool:
        """Tell whether the other side has to speak next."""
        return True

    def answer_to(self, kind: int, body: bytes) -> bytes:
        """Return the answer to a message."""
        raise NotImplementedError

    def say(self, kind: int, body: bytes) -> bytes:
        """Return a message as bytes, and add it to what the proofs cover."""
        raw = handshake_message(kind, body)
        self.transcript.update(raw)
        return raw

    def heard(self, kind: int, body: bytes, expected: int) -> bytes:
        """Return the body of a message, which must be of the kind `expected`, and add it to what
        the proofs cover."""
        if kind != expected:
            raise BrokenHandshake(f"it said {kind} where {expected} had its turn")
        self.transcript.update(handshake_message(kind, body))
        return body

    def introduce(self, label: bytes, own: Introduction) -> bytes:
        """Return this side's introduction with its proof."""
        fields = own.encode()
        return self.say(INTRODUCTION, fields + self.proof(label, fields))

    def proven(self, label: bytes, body: bytes, kind: int) -> Introduction:
        """Return the other side's introduction. Its proof is checked before anything else."""
        if kind != INTRODUCTION:
            raise BrokenHandshake(f"it said {kind} where {INTRODUCTION} had its turn")
        fields, proof = body[:-PROOF_BYTES], body[-PROOF_BYTES:]
        if not compare_digest(proof, self.proof(label, fields)):
            raise HandshakeRefused(WRONG_SECRET)
        self.heard(kind, body, INTRODUCTION)
        return decode_introduction(fields)

    def proof(self, label: bytes, fields: bytes) -> bytes:
        """Return the proof that this side knows the secret, at this point of the handshake."""
        return hmac_digest(self.secret, label + self.transcript.digest() + fields, "sha256")


class DialerHandshake(PeerHandshake):
    """The connecting side, which says `own` of itself."""

    def __init__(self, secret: bytes, nonce: bytes, own: Introduction) -> None:
        super().__init__(secret, nonce)
        self.own = own

    def begin(self) -> bytes:
        """Return the first bytes of the connection."""
        return MAGIC + self.say(HELLO, HELLO_BODY.pack(VERSION_MIN, VERSION_MAX, self.nonce))

    def answer_to(self, kind: int, body: bytes) -> bytes:
        if not self.version:
            version, _ = unpacked(CHALLENGE_BODY, self.heard(kind, body, CHALLENGE))
            if not VERSION_MIN <= version <= VERSION_MAX:
                raise HandshakeRefused(no_version(version, version))
            self.version = version
            return self.introduce(DIALER, self.own)
        self.other = self.proven(ACCEPTOR, body, kind)
        self.is_over = True
        return b""


class AcceptorHandshake(PeerHandshake):
    """The accepting side. When `other` is known it waits for `accept`."""

    def waits_for_peer(self) -> bool:
        return self.other is None

    def receive(self, data: bytes) -> bytes:
        answer = super().receive(data)
        if len(self.reader.data) > LINK_HANDSHAKE_BYTES:
            raise HandshakeRefused("it goes on before it was answered")
        return answer

    def answer_to(self, kind: int, body: bytes) -> bytes:
        if self.version:
            self.other = self.proven(DIALER, body, kind)
            return b""
        low, high, _ = unpacked(HELLO_BODY, self.heard(kind, body, HELLO))
        version = min(high, VERSION_MAX)
        if version < max(low, VERSION_MIN):
            raise HandshakeRefused(no_version(low, high))
        self.version = version
        return MAGIC + self.say(CHALLENGE, CHALLENGE_BODY.pack(version, self.nonce))

    def accept(self, own: Introduction) -> bytes:
        """Accept the other side, and say `own` of this one. Returns what is to be written."""
        assert self.other is not None, "nobody is there to be let in"
        assert not self.is_over, "let in twice"
        self.is_over = True
        return self.introduce(ACCEPTOR, own)

    def refusal(self, sentence: str) -> bytes:
        """Return the message that refuses the other side, whatever was said before."""
        return (b"" if self.version else MAGIC) + refusal_message(sentence)


def unpacked(layout: Struct, body: bytes) -> tuple[Any, ...]:
    """Return the fields of a body. Raises BrokenHandshake when it has another size."""
    if len(body) != layout.size:
        raise BrokenHandshake(f"it said {len(body)} bytes where {layout.size} belong")
    return layout.unpack(body)


def no_version(low: int, high: int) -> str:
    """Return the sentence for a node that only speaks the versions from `low` to `high`."""
    theirs = f"version {low}" if low == high else f"versions {low} to {high}"
    ours = f"{VERSION_MIN} to {VERSION_MAX}"
    return f"it speaks {theirs} of the protocol between nodes, and this node {ours}"
