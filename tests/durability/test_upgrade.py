"""Goal: a directory of an earlier version is started as it is, and nothing of it is lost.

Method: what version 0.1.0 left behind when it was killed: 60 confirmed messages in queue `a`, half
of them in the message store, and 60 in stream `s`.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pika
import pytest
from click.testing import CliRunner

from sluicemq.cli.fsck import fsck
from support import broker

LEFT = Path(__file__).with_name("data") / "version-0.1-killed.zip"


def checked(path: Path) -> str:
    """What fsck says at the end."""
    return CliRunner().invoke(fsck, [str(path)]).output.splitlines()[-1]


@pytest.mark.timeout(120)
def test_a_directory_of_the_first_version(tmp_path: Path) -> None:
    with ZipFile(LEFT) as archive:
        archive.extractall(tmp_path)
    assert checked(tmp_path) == "sound"
    assert not (tmp_path / "manifest").exists()
    for _ in range(2):
        with broker.serving(tmp_path) as target:
            parameters = pika.ConnectionParameters(target.host, target.port)
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                assert channel.queue_declare("a", passive=True).method.message_count == 60
                assert channel.queue_declare("s", passive=True).method.message_count == 60
                bodies = [channel.basic_get("a")[2] for _ in range(60)]
                assert bodies == [b"%05d" % n * (1 if n % 2 else 2000) for n in range(60)]
        assert checked(tmp_path) == "sound"
        assert (tmp_path / "manifest").exists()
