"""What a user may set about TLS, under RabbitMQ's names."""

from __future__ import annotations

from typing import Final

from sluicemq.errors import Refused
from sluicemq.options import Section, dataclass, declared

VERIFY_PEER: Final = "verify_peer"


@dataclass(frozen=True, kw_only=True)
class TlsConfig(Section):
    """AMQP over TLS; [security.md](security.md) describes how to set it up."""

    host: str | None = declared(
        None, "text", "The address to listen on for TLS.", default_words="the one for TCP"
    )
    port: int | None = declared(
        None,
        "count",
        "The port to listen on for TLS, 5671 by custom; 0 lets the system choose one. RabbitMQ's"
        " key also takes `address:port`.",
        keys=("listeners.ssl.default", "listeners.ssl.1"),
        high=65535,
        default_words="TLS is off",
    )
    certfile: str | None = declared(
        None,
        "text",
        "The file with the broker's certificate and the intermediate ones after it, PEM.",
        keys=("ssl_options.certfile",),
        default_words="none; required with a port",
    )
    keyfile: str | None = declared(
        None,
        "text",
        "The file with the private key of the certificate, PEM.",
        keys=("ssl_options.keyfile",),
        default_words="in `ssl_options.certfile`",
    )
    password: str | None = declared(
        None,
        "text",
        "The password of the private key.",
        keys=("ssl_options.password",),
        secret=True,
        default_words="the key is not encrypted",
    )
    cacertfile: str | None = declared(
        None,
        "text",
        "The file with the certificates of the authorities trusted to sign clients' ones, PEM.",
        keys=("ssl_options.cacertfile",),
        default_words="none; `verify_peer` needs it",
    )
    verify: str = declared(
        "verify_none",
        "choice",
        "`verify_peer` asks clients for a certificate and refuses one that no authority in"
        " `ssl_options.cacertfile` has signed.",
        keys=("ssl_options.verify",),
        choices=("verify_none", VERIFY_PEER),
    )
    fail_if_no_peer_cert: bool = declared(
        False,
        "switch",
        "With `verify_peer`: whether clients without a certificate are refused, too.",
        keys=("ssl_options.fail_if_no_peer_cert",),
    )
    depth: int = declared(
        10,
        "count",
        "With `verify_peer`: how many certificates may stand between a client's and its root.",
        keys=("ssl_options.depth",),
        high=100,
    )
    versions: tuple[str, ...] = declared(
        ("tlsv1.3", "tlsv1.2"),
        "names",
        "The versions of TLS that are accepted; older ones are not secure.",
        keys=("ssl_options.versions",),
        choices=("tlsv1.3", "tlsv1.2"),
    )
    ciphers: tuple[str, ...] = declared(
        (),
        "names",
        "The cipher suites of TLS 1.2, by OpenSSL's names, best first; `none` for OpenSSL's"
        " choice. Those of TLS 1.3 are always enabled.",
        keys=("ssl_options.ciphers",),
    )
    honor_cipher_order: bool = declared(
        True,
        "switch",
        "Whether the broker's order of cipher suites is used instead of the client's.",
        keys=("ssl_options.honor_cipher_order",),
    )
    handshake_timeout_ms: int = declared(
        5000,
        "count",
        "How long a client may take for the TLS handshake.",
        unit="milliseconds",
        keys=("ssl_handshake_timeout",),
        low=100,
        high=600_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.port is not None and self.certfile is None:
            raise Refused("listeners.ssl.default is set, so ssl_options.certfile must be")
        if self.verify == VERIFY_PEER and self.cacertfile is None:
            raise Refused("ssl_options.verify = verify_peer: ssl_options.cacertfile must be set")
        if self.fail_if_no_peer_cert and self.verify != VERIFY_PEER:
            raise Refused(
                "ssl_options.fail_if_no_peer_cert = true: ssl_options.verify must be verify_peer"
            )
        if not self.versions:
            raise Refused("ssl_options.versions = none: must name at least one version")
