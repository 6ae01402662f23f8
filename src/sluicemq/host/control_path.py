"""The path of a broker's control socket, which both ends derive from the port alone.

The socket is in a directory that only its user can enter; that is the whole access control. Both
ends have the same list of directories: a broker started by a service manager and a shell may see
different environments, so the broker takes the first usable one and the client tries each.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sluicemq.errors import Refused

PATH_BYTES_MAX: Final = 107
"""The longest path of a socket: on Linux sun_path has 108 bytes, with its end."""


SERVICE_DIR: Final = Path("/run/sluicemq")
"""The directory for the socket in deploy/sluicemq.service."""


def runtime_dirs(env: Mapping[str, str], uid: int) -> list[Path]:
    """Return the directories for the socket, best first. The first two depend on the environment,
    the others do not: the last is that of a systemd service, which has a `/tmp` of its own."""
    own = f"sluicemq-{uid}"
    places = [Path("/tmp") / own, SERVICE_DIR]
    if env.get("TMPDIR"):
        places.insert(0, Path(env["TMPDIR"]) / own)
    if env.get("XDG_RUNTIME_DIR"):
        places.insert(0, Path(env["XDG_RUNTIME_DIR"]))
    return list(dict.fromkeys(places))


def socket_name(port: int) -> str:
    """Return the socket's name within its directory."""
    return f"sluicemq-{port}.sock"


def sockets_to_try(port: int, env: Mapping[str, str], uid: int) -> list[Path]:
    """Return the paths where a client may find the socket, leaving out directories that others can
    enter."""
    return [place / socket_name(port) for place in runtime_dirs(env, uid) if is_private(place, uid)]


def socket_to_bind(port: int, env: Mapping[str, str], uid: int) -> Path:
    """Return the path for the broker's socket, and make its directory when it is missing. Raises
    Refused when no directory is usable."""
    for place in runtime_dirs(env, uid):
        path = place / socket_name(port)
        if len(os.fsencode(path)) <= PATH_BYTES_MAX and _made(place) and is_private(place, uid):
            return path
    tried = ", ".join(str(place) for place in runtime_dirs(env, uid))
    raise Refused(f"no private directory for the control socket (tried {tried})")


def is_private(place: Path, uid: int) -> bool:
    """Tell whether `place` is a real directory of `uid` that no other user can enter."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == uid
        and not stat.S_IMODE(status.st_mode) & 0o077
    )


def _made(place: Path) -> bool:
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return False
    return True
