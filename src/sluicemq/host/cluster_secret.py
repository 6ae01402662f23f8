"""The file with the secret that the nodes of a cluster share."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluicemq.errors import Refused

if TYPE_CHECKING:
    from sluicemq.cluster_config import ClusterConfig

SECRET_BYTES_MAX: Final = 4096
"""More than any real secret has."""


def read_secret(config: ClusterConfig) -> bytes:
    """Return the secret of the configured cluster; nothing without a cluster. Raises Refused when
    the file cannot be read, others have access to it, or the secret's length is not allowed."""
    if not config.takes_part:
        return b""
    from sluicemq.cluster.handshake import checked_secret  # noqa: PLC0415 (start-up time)

    assert config.secret_file is not None
    path = Path(config.secret_file)
    option = f"cluster.secret_file = {path}"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            raw = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise Refused(f"{option}: {error.strerror}") from error
    if mode & 0o077:
        raise Refused(
            f"{option}: others than its owner have access to it, its mode is {mode:04o}; it must be"
            " 0600 or 0400"
        )
    if len(raw) > SECRET_BYTES_MAX:
        raise Refused(f"{option}: it has more than {SECRET_BYTES_MAX} bytes")
    try:
        return checked_secret(raw)
    except Refused as error:
        raise Refused(f"{option}: {error}") from error
