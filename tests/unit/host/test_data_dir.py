"""Goal: one broker a data directory, and a clear word to the second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.host.data_dir import held


def test_the_directory_is_made_and_freed_again(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with held(path):
        assert (path / "lock").read_text() == f"{os.getpid()}\n"
    with held(path):
        assert path.is_dir()


def test_a_second_broker_is_refused_with_the_first_ones_pid(tmp_path: Path) -> None:
    with (
        held(tmp_path),
        pytest.raises(Refused, match=f"another broker has it, process {os.getpid()}"),
        held(tmp_path),
    ):
        raise AssertionError("both hold it")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="data_dir"), held(tmp_path / "file"):
        raise AssertionError("held a file")
