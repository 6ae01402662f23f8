"""TLS between a socket and its connection: bytes in, bytes out; the poller has the plain socket.

asyncio's own TLS keeps a quarter of a mebibyte a connection, cannot end one half of a socket, and
has one set of certificates for a listener's whole life. Here the records are read and written in
memory: pausing, lingering and the bounds of the write buffer are those of the plain socket.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sluicemq.errors import Refused, TlsFailed
from sluicemq.tls_config import VERIFY_PEER

if TYPE_CHECKING:
    from sluicemq.config import AuthConfig, Config
    from sluicemq.tls_config import TlsConfig

RECORD_BYTES: Final = 16_384
"""Largest plaintext of one TLS record (RFC 8446, section 5.1)."""

VERSIONS: Final = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
FIXED_CIPHERS: Final = "TLS_"
"""The prefix of TLS 1.3's cipher suites, which Python does not let anyone choose."""

ATTRIBUTES: Final = {
    "commonName": "CN",
    "surname": "SN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "2.5.4.9",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "serialNumber": "SERIALNUMBER",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "dnQualifier": "2.5.4.46",
}
"""OpenSSL's names of the parts of a distinguished name, and RabbitMQ's, which has none for some of
them and shows their object identifiers."""

SAN_KINDS: Final = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """Make the context with the broker's certificate and its demands on clients. Raises Refused,
    which names the option at fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = min(VERSIONS[name] for name in tls.versions)
    context.maximum_version = max(VERSIONS[name] for name in tls.versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if tls.honor_cipher_order:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0  # connections live long, and each client authenticates anew
    load_certificate(context, tls)
    if tls.verify == VERIFY_PEER:
        load_authorities(context, str(tls.cacertfile))
        required = tls.fail_if_no_peer_cert
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    chosen = [name for name in tls.ciphers if not name.startswith(FIXED_CIPHERS)]
    if chosen:
        try:
            context.set_ciphers(":".join(chosen))
        except ssl.SSLError:
            names = " ".join(chosen)
            raise Refused(f"ssl_options.ciphers = {names}: OpenSSL knows none of them") from None
    return context


def load_certificate(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """Load the broker's certificate and its key. Raises Refused, which names the option at
    fault."""
    certfile = str(tls.certfile)
    keyfile = tls.keyfile or certfile
    key_option = "keyfile" if tls.keyfile else "certfile"
    check_readable("certfile", certfile)
    check_readable(key_option, keyfile)
    wrong_password = f"ssl_options.password: does not open the key in {keyfile}"

    def password() -> str:
        if tls.password is None:
            raise Refused(f"ssl_options.password: is not set, but the key in {keyfile} needs it")
        return tls.password

    try:
        context.load_cert_chain(certfile, keyfile, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"ssl_options.{key_option} = {keyfile}: is not the key of {certfile}"
        elif error.reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ", "MAYBE_WRONG_PASSWORD"):
            text = wrong_password
        elif "BEGIN CERTIFICATE" not in Path(certfile).read_text(errors="replace"):
            text = f"ssl_options.certfile = {certfile}: holds no certificate in PEM"
        else:
            text = f"ssl_options.{key_option} = {keyfile}: holds no private key in PEM that serves"
            text += f" ({error.reason})" if error.reason else ""
        raise Refused(text) from None


def load_authorities(context: ssl.SSLContext, cacertfile: str) -> None:
    """Load the authorities whose client certificates are trusted. Raises Refused when the file
    cannot be read or holds no certificate."""
    check_readable("cacertfile", cacertfile)
    try:
        context.load_verify_locations(cacertfile)
    except ssl.SSLError as error:
        raise Refused(
            f"ssl_options.cacertfile = {cacertfile}: holds no certificates in PEM ({error.reason})"
        ) from None


def check_readable(option: str, path: str) -> None:
    """Raise Refused when a file is missing, is a directory, or cannot be read by this user."""
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise Refused(f"ssl_options.{option} = {path}: {error.strerror}") from error


class TlsSettings:
    """The context for new connections. `load` replaces it whole, or not at all."""

    def __init__(self, config: Config) -> None:
        self.context: ssl.SSLContext
        self.tls: TlsConfig
        self.auth: AuthConfig
        self.load(config)

    def load(self, config: Config) -> None:
        """Read the files again. If this raises Refused everything stays as it was."""
        self.context = server_context(config.tls)
        self.tls = config.tls
        self.auth = config.auth

    def session(self) -> TlsSession:
        """Return TLS for a new connection."""
        return TlsSession(self)


class TlsSession:
    """TLS of one connection, without a socket."""

    __slots__ = ("_incoming", "_object", "_outgoing", "auth", "depth", "ended", "ready")

    def __init__(self, settings: TlsSettings) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = settings.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.auth = settings.auth
        self.depth = settings.tls.depth
        self.ready = False
        """True when the handshake is done."""
        self.ended = False
        """True when the peer, or this side, has closed TLS."""

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the socket; returns the decrypted bytes, perhaps none yet. Raises
        TlsFailed, which ends the session."""
        try:
            return self.decrypted(data)
        except ssl.SSLError as error:
            raise TlsFailed(reason_of(error)) from error

    def decrypted(self, data: bytes) -> bytes:
        """Return what these bytes say. Raises ssl.SSLError."""
        self._incoming.write(data)
        if not self.ready:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self.ready = True
        parts: list[bytes] = []
        try:
            while not self.ended:
                part = self._object.read(RECORD_BYTES)
                if part:
                    parts.append(part)
                else:
                    self.ended = True
        except ssl.SSLWantReadError:
            pass
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def send(self, data: bytes) -> bytes:
        """Return the bytes to write to the socket for `data`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]
        return self._outgoing.read()

    def to_write(self) -> bytes:
        """Return the bytes that TLS itself has to write: parts of its handshake, alerts."""
        return self._outgoing.read()

    def goodbye(self) -> bytes:
        """Return the closing alert, which is the last thing to write."""
        self.ended = True
        if self.ready:
            with suppress(ssl.SSLError):  # the peer's closing alert is not waited for
                self._object.unwrap()
        return self._outgoing.read()

    def facts(self) -> dict[str, str]:
        """Return the facts of the session, under RabbitMQ's names of connection columns."""
        cipher = self._object.cipher()
        certificate = self._certificate()
        return {
            "ssl_protocol": str(self._object.version()).lower(),
            "ssl_cipher": cipher[0] if cipher else "",
            "peer_cert_subject": distinguished_name(certificate.get("subject", ())),
            "peer_cert_issuer": distinguished_name(certificate.get("issuer", ())),
        }

    def too_deep(self) -> bool:
        """Tell whether the client's certificate is further from its root than allowed."""
        if not self._certificate():
            return False
        chain = self._object._sslobj.get_verified_chain()  # type: ignore[attr-defined]  # public from 3.13 on
        return len(chain) > self.depth + 2

    def user(self) -> str:
        """Return the user name for EXTERNAL; "" without a verified certificate that has one."""
        return user_of(self._certificate(), self.auth)

    def _certificate(self) -> Mapping[str, Any]:
        """Return the client's certificate when it was verified, otherwise an empty mapping."""
        return self._object.getpeercert() or {}


def user_of(certificate: Mapping[str, Any], auth: AuthConfig) -> str:
    """Return the user's name from a certificate, which has the form of ssl.getpeercert."""
    subject = certificate.get("subject", ())
    if auth.ssl_cert_login_from == "distinguished_name":
        return distinguished_name(subject)
    if auth.ssl_cert_login_from == "common_name":
        return ",".join(common_names(subject))
    kind = SAN_KINDS[auth.ssl_cert_login_san_type]
    names = [value for found, value in certificate.get("subjectAltName", ()) if found == kind]
    index = auth.ssl_cert_login_san_index
    return str(names[index]) if index < len(names) else ""


def common_names(subject: Any) -> list[str]:
    """Return all common names of a subject, in the certificate's order."""
    return [value for part in subject for name, value in part if name == "commonName"]


def distinguished_name(subject: Any) -> str:
    """Return a name such as `CN=app,O=Works`: last part first, as RFC 4514 has it and RabbitMQ
    too."""
    parts = [
        "+".join(f"{ATTRIBUTES.get(name, name)}={escaped(value)}" for name, value in part)
        for part in subject
    ]
    return ",".join(reversed(parts))


def escaped(value: str) -> str:
    """Escape an attribute value as RFC 4514, section 2.4, demands."""
    text = "".join("\\" + char if char in ',+"\\<>;' else char for char in value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text


def reason_of(error: ssl.SSLError) -> str:
    """Return the cause of a TLS error for the log, in words that people search for."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate was refused: {error.verify_message}"
    hints = {
        "HTTP_REQUEST": "this is HTTP",
        "WRONG_VERSION_NUMBER": "this is not TLS, or a version that is not spoken here",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate",
    }
    reason = error.reason or str(error)
    return hints.get(reason, reason.lower().replace("_", " "))
