"""Goal: code in the documents runs as it stands there.

Method: the pieces of a page, in their order, in a folder of their own, with another port where the
page has RabbitMQ's; of pages that other tests run only the syntax is looked at here.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sluicemq.cli.config_file import config_of, read_text
from support import broker
from support.broker import ENVIRONMENT
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PIECE = re.compile(r"^```(python|sh|ini|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 300

RUN_HERE = {"index.md", "testing.md", "testing-compared.md", "security.md", "delayed-messages.md"}
RUN_ELSEWHERE = {
    "from-rabbitmq.md": "ctl/test_move.py",
    "spark-amqp.md": "spark/test_amqp_example.py",
    "spark-cookbook.md": "spark/test_amqp_cookbook.py",
    "spark-languages.md": "spark/test_amqp_languages.py",
}
"""Who runs the code of a page."""

AROUND_TESTS = """
import threading
import pika
import pytest
connect = lambda url: pika.BlockingConnection(pika.URLParameters(url)).close()

def start_worker(url):
    def work():
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.queue_declare("shipped")
            method, _, body = next(channel.consume("orders"))
            channel.basic_publish("", "shipped", body)
            channel.basic_ack(method.delivery_tag)
    ready = pika.BlockingConnection(pika.URLParameters(url))
    ready.channel().queue_declare("shipped")
    ready.close()
    threading.Thread(target=work, daemon=True).start()
"""
ENDING = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
"""Whatever a script has started ends with it."""

BEHIND_TESTS = """
def test_that_fixtures_work(rabbitmq_url, rabbitmq, app):
    assert rabbitmq_url == app.conf.broker_url
    rabbitmq.channel().queue_declare("q")
"""


def pieces(name: str, *kinds: str) -> list[tuple[str, str]]:
    """Kind and text of each piece of a page."""
    found = PIECE.findall((DOCS / name).read_text(encoding="utf-8"))
    return [(kind, text) for kind, text in found if kind in kinds]


def as_script(name: str) -> str:
    """A page's pieces in the order of a reader, for bash."""
    script = "set -eu\n"
    for kind, text in pieces(name, "sh", "python"):
        script += text if kind == "sh" else f"python - <<'PYTHON'\n{text}PYTHON\n"
    return script


def run(script: str, place: Path, **more: str) -> str:
    """What a script says, which must succeed; `sluicemq` and `python` are this tree's."""
    shims = place / "bin"
    shims.mkdir()
    for name, module in (("sluicemq", "-m sluicemq"), ("python", "")):
        (shims / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        (shims / name).chmod(0o755)
    env = ENVIRONMENT | {"PATH": f"{shims}:{os.environ['PATH']}"} | more
    said = place / "said.txt"
    with said.open("wb") as output:  # no pipe: a broker that the page starts would hold it
        code = subprocess.call(
            ["bash", "-c", ENDING + script],
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
    text = said.read_text(errors="replace")
    assert code == 0, text
    return text


def test_five_minutes(tmp_path: Path) -> None:
    port = str(free_port())
    script = as_script("index.md").replace("5672", port)
    # Who reads takes longer than the broker, which writes what was taken 0.2 s later.
    script = script.replace("kill -9", "sleep 3; kill -9")
    said = run(script, tmp_path, SLUICEMQ_PORT=port)
    assert "message 0" in said
    assert "MESSAGE STORE" in said
    assert re.findall(r"^hello\t([0-9]+)", said, re.MULTILINE) == ["999", "999"]


def test_tests_of_the_pages(tmp_path: Path) -> None:
    pages = ("testing.md", "testing-compared.md")
    own = [text for page in pages for _, text in pieces(page, "python")]
    (tmp_path / "test_pages.py").write_text("\n".join([AROUND_TESTS, *own, BEHIND_TESTS]))
    pytest_alone = f"-q -c {os.devnull} --rootdir . -p no:cacheprovider test_pages.py"
    assert "2 passed" in run(f"python -m pytest {pytest_alone}", tmp_path)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs Debian's openssl")
def test_certificates_and_a_client_with_one(tmp_path: Path) -> None:
    port = str(free_port())
    (_, certificates), (_, conf), (_, client) = pieces("security.md", "sh", "ini", "python")
    (tmp_path / "rabbitmq.conf").write_text(conf.replace("5671", port))
    script = f"""set -eu
{certificates}
sluicemq serve --config rabbitmq.conf --data-dir data &
until sluicemq ctl ping; do sleep 1; done
python - <<'PYTHON'
{client.replace("5671", port)}
print(connection.is_open)
PYTHON
sluicemq ctl stop
"""
    assert "\nTrue\n" in run(script, tmp_path, SLUICEMQ_PORT=port)


def test_a_delayed_message(tmp_path: Path) -> None:
    ((_, piece),) = pieces("delayed-messages.md", "python")
    with broker.serving(tmp_path) as target:
        before = (
            "import pika\n"
            f"connection = pika.BlockingConnection(pika.URLParameters({target.url!r}))\n"
            "channel = connection.channel()\nchannel.queue_declare('tasks')\n"
        )
        run(f"python - <<'PYTHON'\n{before}{piece}\nconnection.close()\nPYTHON\n", tmp_path)


def test_everything_that_is_code_can_be_read() -> None:
    for page in sorted(DOCS.glob("*.md")):
        for kind, text in pieces(page.name, "python", "ini", "toml"):
            if kind == "python":
                ast.parse(text)
            else:
                if kind == "toml":
                    tomllib.loads(text)
                name = Path("a.toml" if kind == "toml" else "a.conf")
                assert config_of(read_text(name, text)).notes == []


def test_somebody_runs_the_code_of_each_page() -> None:
    with_code = {page.name for page in DOCS.glob("*.md") if pieces(page.name, "python", "sh")}
    assert with_code == RUN_HERE | RUN_ELSEWHERE.keys()
    assert all((ROOT / "tests" / test).exists() for test in RUN_ELSEWHERE.values())
