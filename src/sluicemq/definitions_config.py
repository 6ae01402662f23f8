"""What a user may set about definitions that are imported when the broker starts."""

from __future__ import annotations

from sluicemq.options import Section, dataclass, declared


@dataclass(frozen=True, kw_only=True)
class DefinitionsConfig(Section):
    """Definitions that the broker imports when it starts, before it listens: virtual hosts, users,
    queues and so on ([ctl.md](ctl.md#definitions))."""

    load: str | None = declared(
        None,
        "text",
        "A definitions file, RabbitMQ's JSON. With one the broker does not create the first user"
        " and virtual host. A broker that cannot import the whole file does not start.",
        keys=("load_definitions", "definitions.local.path", "management.load_definitions"),
        default_words="none",
    )
    skip_if_unchanged: bool = declared(
        False,
        "switch",
        "Whether to skip the import when the last one had the same content, so that later changes"
        " are kept.",
        keys=("definitions.skip_if_unchanged",),
    )
    import_backend: str = declared(
        "local_filesystem",
        "choice",
        "Where definitions come from.",
        keys=("definitions.import_backend",),
        choices=("local_filesystem",),
    )
