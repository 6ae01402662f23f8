"""What a user may set about management: the HTTP API, its pages, and metrics."""

from __future__ import annotations

from sluicemq.errors import Refused
from sluicemq.options import Section, dataclass, declared


@dataclass(frozen=True, kw_only=True)
class ManagementConfig(Section):
    """The process that serves the HTTP API and its pages ([management.md](management.md))."""

    enabled: bool = declared(
        False,
        "switch",
        "Whether `sluicemq serve` starts that process together with the broker, as `--management`"
        " does.",
    )
    host: str = declared(
        "127.0.0.1",
        "text",
        "The address that the HTTP API listens on.",
        keys=("management.tcp.ip",),
    )
    port: int = declared(
        15672,
        "count",
        "The port of the HTTP API; 0 lets the system choose one.",
        keys=("management.tcp.port", "management.listener.port"),
        high=65535,
    )
    ssl_host: str | None = declared(
        None,
        "text",
        "The address that the HTTP API listens on over TLS.",
        keys=("management.ssl.ip",),
        default_words="the one without TLS",
    )
    ssl_port: int | None = declared(
        None,
        "count",
        "The port of the HTTP API over TLS, 15671 by custom.",
        keys=("management.ssl.port",),
        high=65535,
        default_words="there is none",
    )
    certfile: str | None = declared(
        None,
        "text",
        "The file with the certificate for that, and the intermediate ones after it, PEM.",
        keys=("management.ssl.certfile",),
        default_words="none; required with `management.ssl.port`",
    )
    keyfile: str | None = declared(
        None,
        "text",
        "The file with the private key of that certificate, PEM.",
        keys=("management.ssl.keyfile",),
        default_words="in `management.ssl.certfile`",
    )
    password: str | None = declared(
        None,
        "text",
        "The password of that private key.",
        keys=("management.ssl.password",),
        secret=True,
        default_words="the key is not encrypted",
    )
    sample_interval_ms: int = declared(
        5000,
        "count",
        "How often the process takes the figures from which it computes rates and histories.",
        unit="milliseconds",
        keys=("collect_statistics_interval",),
        low=100,
        high=600_000,
    )
    session_minutes: int = declared(
        480,
        "count",
        "How long a user stays logged in on the page.",
        unit="minutes",
        keys=("management.login_session_timeout",),
        low=1,
        high=100_000,
    )
    body_bytes_max: int = declared(
        20 << 20,
        "bytes",
        "The largest body of a request, such as definitions.",
        unit="bytes",
        keys=("management.http.max_body_size",),
        low=1024,
        high=1 << 30,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ssl_port is not None and self.certfile is None:
            raise Refused("management.ssl.port is set, so management.ssl.certfile must be")


@dataclass(frozen=True, kw_only=True)
class PrometheusConfig(Section):
    """Metrics for Prometheus, which the same process serves."""

    host: str = declared(
        "127.0.0.1",
        "text",
        "The address that metrics are served at on a port of their own.",
        keys=("prometheus.tcp.ip",),
    )
    port: int | None = declared(
        None,
        "count",
        "The port for metrics alone, 15692 by custom; 0 lets the system choose one.",
        keys=("prometheus.tcp.port",),
        high=65535,
        default_words="metrics are served on the port of the HTTP API alone",
    )
    per_object: bool = declared(
        False,
        "switch",
        "Whether `/metrics` has the figures of each object, as `/metrics/per-object` has.",
        keys=("prometheus.return_per_object_metrics",),
    )
    authentication: bool = declared(
        False,
        "switch",
        "Whether metrics are for users with the tag monitoring or administrator only.",
        keys=("prometheus.authentication.enabled",),
    )
