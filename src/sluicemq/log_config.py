"""What a user may set about the log."""

from __future__ import annotations

from sluicemq.options import Section, dataclass, declared


@dataclass(frozen=True, kw_only=True)
class LogConfig(Section):
    """Where the broker logs, what, and how ([operation.md](operation.md#logs)). On SIGHUP it opens
    its log file again, so that you can move the old one away."""

    file: str | None = declared(
        None,
        "text",
        "The file that log lines are appended to; `false` for standard error.",
        keys=("log.file",),
        default_words="standard error",
    )
    dir: str | None = declared(
        None,
        "text",
        "The directory of the log file, when `log.file` is no absolute path.",
        keys=("log.dir",),
        default_words="the working directory",
    )
    formatter: str = declared(
        "plaintext",
        "choice",
        "How a line is written: `plaintext`, or `json`, an object with `time`, `level` and `msg`.",
        keys=("log.file.formatter", "log.console.formatter"),
        choices=("plaintext", "json"),
    )
    level: str = declared(
        "info",
        "choice",
        "The lowest level that is logged; `none` for no log. The broker uses the levels info,"
        " warning and error; it accepts the others because RabbitMQ's files have them.",
        keys=("log.file.level", "log.console.level", "log.default.level"),
        choices=("debug", "info", "notice", "warning", "error", "critical", "none"),
    )
