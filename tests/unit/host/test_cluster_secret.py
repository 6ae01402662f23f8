"""Goal: the secret of a cluster is read from a file that is nobody else's, or the start is refused
in a sentence that names the option and does not show the secret.

Method: files of each kind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.cluster_config import ClusterConfig
from sluicemq.errors import Refused
from sluicemq.host.cluster_secret import read_secret


def config(path: Path) -> ClusterConfig:
    return ClusterConfig(name="n1", nodes=("h:1",), port=1, secret_file=str(path))


def test_it_is_what_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b" sixteen bytes or more\n")
    path.chmod(0o400)
    assert read_secret(config(path)) == b"sixteen bytes or more"
    assert read_secret(ClusterConfig()) == b""


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (None, 0, "No such file or directory"),
        (
            b"sixteen bytes or more",
            0o640,
            "others than its owner have access to it, its mode is 0640",
        ),
        (b"sixteen bytes or more", 0o604, "its mode is 0604; it must be 0600 or 0400"),
        (b"", 0o600, "has 0 bytes; it must have at least 16"),
        (b" \n" * 20, 0o600, "has 0 bytes"),
        (b"fifteen bytes !", 0o600, "has 15 bytes"),
        (b"x" * 5000, 0o600, "it has more than 4096 bytes"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes | None, mode: int, words: str) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(Refused) as refused:
        read_secret(config(path))
    said = str(refused.value)
    assert said.startswith(f"cluster.secret_file = {path}: ")
    assert words in said
    assert b"bytes or" not in said.encode()


def test_a_directory_is_none(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Is a directory"):
        read_secret(config(tmp_path))
