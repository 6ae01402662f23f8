"""Goal: one broker a data directory, a clear word to the second, a place nobody has to choose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluicemq.config import Config, NetConfig, StorageConfig
from sluicemq.errors import Refused
from sluicemq.host.data_dir import chosen, held, user_data


def test_the_directory_is_made_and_freed_again(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with held(path):
        assert (path / "lock").read_text() == f"{os.getpid()}\n"
    with held(path):
        assert path.is_dir()


def test_a_second_broker_is_refused_with_the_first_ones_pid(tmp_path: Path) -> None:
    with (
        held(tmp_path),
        pytest.raises(Refused, match=f"another broker uses it, process {os.getpid()}"),
        held(tmp_path),
    ):
        raise AssertionError("both hold it")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="data_dir"), held(tmp_path / "file"):
        raise AssertionError("held a file")


def config(port: int, data_dir: str | None = None) -> Config:
    return Config(net=NetConfig(port=port), storage=StorageConfig(data_dir=data_dir))


def test_a_directory_that_was_named_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with chosen(config(0, "here"), {}) as path:
        assert path == tmp_path / "here"
        assert (path / "lock").exists()
    assert path.is_dir(), "it stays"


def test_otherwise_the_port_names_it(tmp_path: Path) -> None:
    with chosen(config(5672), {"XDG_DATA_HOME": str(tmp_path)}) as path:
        assert path == tmp_path / "sluicemq" / "5672"
        with pytest.raises(Refused), chosen(config(0, str(path)), {}):
            raise AssertionError("both hold it")
    assert path.stat().st_mode & 0o077 == 0
    assert user_data({"HOME": "/home/x"}) == Path("/home/x/.local/share")
    assert user_data({"HOME": "/home/x", "XDG_DATA_HOME": "rel"}) == Path("/home/x/.local/share")


def test_a_port_the_system_chooses_gets_a_directory_that_goes() -> None:
    with chosen(config(0), {}) as path:
        assert (path / "lock").exists()
    assert not path.exists()


def test_the_directories_made_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def remember(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    with held(tmp_path / "a" / "b"):
        assert synced == [str(tmp_path), str(tmp_path / "a")]
    with held(tmp_path / "a" / "b"):
        assert len(synced) == 2, "what was there before is not"
