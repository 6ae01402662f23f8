"""Where the control socket of a broker is: one place both ends work out from the port alone.

The socket lies in a directory only its user can enter; that is the whole access control. Both ends
look at the same places in the same order: a broker started by a service manager and a shell may
see different environments, so the client tries each and the broker takes the first that serves.
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
"""What deploy/sluicemq.service has for the socket."""


def runtime_dirs(env: Mapping[str, str], uid: int) -> list[Path]:
    """Return the directories for the socket, best first. The first two depend on the environment,
    the others never do: the last is that of a service of systemd, whose `/tmp` is its own."""
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
    """Return, for the client, where the socket may be, leaving out directories that others can
    enter."""
    return [place / socket_name(port) for place in runtime_dirs(env, uid) if is_private(place, uid)]


def socket_to_bind(port: int, env: Mapping[str, str], uid: int) -> Path:
    """Return, for the broker, where to put the socket. Makes the directory when it is missing.
    Raises Refused when no directory is usable."""
    for place in runtime_dirs(env, uid):
        path = place / socket_name(port)
        if len(os.fsencode(path)) <= PATH_BYTES_MAX and _made(place) and is_private(place, uid):
            return path
    tried = ", ".join(str(place) for place in runtime_dirs(env, uid))
    raise Refused(f"no private directory for the control socket (tried {tried})")


def is_private(place: Path, uid: int) -> bool:
    """Tell whether `place` is a real directory that `uid` owns and nobody else can enter."""
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
