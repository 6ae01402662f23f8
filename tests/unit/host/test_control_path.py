"""Goal: both ends find the same socket, and never in a directory somebody else can enter."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.host.control import answers
from sluicemq.host.control_path import is_private, runtime_dirs, socket_to_bind, sockets_to_try

UID = os.getuid()


def test_places_are_the_runtime_directory_then_the_temporary_ones() -> None:
    env = {"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/var/tmp"}
    assert [str(place) for place in runtime_dirs(env, 7)] == [
        "/run/user/7",
        "/var/tmp/sluicemq-7",
        "/tmp/sluicemq-7",
        "/run/sluicemq",
    ]
    assert runtime_dirs({"TMPDIR": "/tmp"}, 7) == [Path("/tmp/sluicemq-7"), Path("/run/sluicemq")]


def test_the_client_tries_where_the_broker_binds(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    bound = socket_to_bind(5672, env, UID)
    assert bound == tmp_path / f"sluicemq-{UID}" / "sluicemq-5672.sock"
    assert sockets_to_try(5672, env, UID)[0] == bound


def test_a_directory_others_can_enter_is_passed_over(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    env = {"XDG_RUNTIME_DIR": str(shared), "TMPDIR": str(tmp_path)}
    assert socket_to_bind(1, env, UID).parent == tmp_path / f"sluicemq-{UID}"
    assert shared / "sluicemq-1.sock" not in sockets_to_try(1, env, UID)


def test_a_symbolic_link_or_anothers_directory_is_not_private(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(real)
    assert is_private(real, UID)
    assert not is_private(tmp_path / "link", UID)
    assert not is_private(real, UID + 1)
    assert not is_private(tmp_path / "absent", UID)


def test_a_path_too_long_for_a_socket_is_passed_over(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir(mode=0o700)
    chosen = socket_to_bind(1, {"XDG_RUNTIME_DIR": str(deep), "TMPDIR": "/tmp"}, UID)
    assert chosen.parent == Path(f"/tmp/sluicemq-{UID}")


def test_a_socket_that_a_killed_broker_has_left_answers_nobody(tmp_path: Path) -> None:
    path = tmp_path / "sluicemq-1.sock"
    assert not asyncio.run(answers(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        assert asyncio.run(answers(path))
    assert path.exists()
    assert not asyncio.run(answers(path))


def test_no_place_at_all_is_refused_with_what_was_tried() -> None:
    nobody = 4_000_000_000
    try:
        with pytest.raises(Refused, match=f"tried /tmp/sluicemq-{nobody}"):
            socket_to_bind(1, {}, nobody)
    finally:
        Path(f"/tmp/sluicemq-{nobody}").rmdir()
