"""librabbitmq, the client in C, by its command line tools (Debian: amqp-tools)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from support.broker import Target

Tool = Callable[..., subprocess.CompletedProcess[bytes]]

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None, reason="amqp-tools is not installed"
)


@pytest.fixture
def tool(target: Target) -> Tool:
    """Runs one of the tools; with `check=False` it may fail."""

    def run(
        program: str, *arguments: str, stdin: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        url = f"{target.url}%2F"
        command = [f"amqp-{program}", f"--url={url}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=check, timeout=240)

    return run


@pytest.fixture
def queue(tool: Tool, name: str) -> Iterator[str]:
    """Declared and deleted by the tools."""
    assert tool("declare-queue", "-q", name).stdout.decode().strip() == name
    yield name
    tool("delete-queue", "-q", name)


def test_a_queue_is_declared_with_a_name_of_the_brokers(tool: Tool) -> None:
    made = tool("declare-queue", "-d", "-q", "").stdout.decode().strip()
    assert made.startswith("amq.gen-")
    assert tool("delete-queue", "-q", made).stdout == b"0\n"


def test_messages_come_back_one_by_one(tool: Tool, queue: str) -> None:
    tool("publish", "-r", queue, "-b", "one")
    tool("publish", "-r", queue, "-p", "-C", "text/plain", "-H", "kind: test", "-b", "two")
    assert [tool("get", "-q", queue).stdout for _ in range(2)] == [b"one", b"two"]
    assert tool("get", "-q", queue, check=False).returncode == 2


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_000_000])
def test_bodies_of_any_size(tool: Tool, queue: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    tool("publish", "-r", queue, stdin=body[:size])
    assert tool("get", "-q", queue).stdout == body[:size]


@pytest.mark.parametrize("options", [(), ("-A",), ("-p", "1")])
def test_lines_are_consumed_in_order(tool: Tool, queue: str, options: tuple[str, ...]) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(20))
    tool("publish", "-r", queue, "-l", stdin=lines)
    assert tool("consume", "-q", queue, "-c", "20", *options, "cat").stdout == lines


def test_a_message_whose_command_fails_goes_back(tool: Tool, queue: str) -> None:
    tool("publish", "-r", queue, "-b", "again")
    tool("consume", "-q", queue, "-c", "1", "false", check=False)
    assert tool("get", "-q", queue).stdout == b"again"


def test_a_queue_that_is_not_empty_is_kept(tool: Tool, queue: str) -> None:
    tool("publish", "-r", queue, "-b", "here")
    refused = tool("delete-queue", "-e", "-q", queue, check=False)
    assert refused.returncode == 1
    assert b"PRECONDITION_FAILED" in refused.stderr
    assert tool("delete-queue", "-q", queue).stdout == b"1\n"


def test_consuming_from_no_queue_is_refused(tool: Tool, name: str) -> None:
    refused = tool("consume", "-q", name, "-c", "1", "cat", check=False)
    assert refused.returncode == 1
    assert b"NOT_FOUND - no queue" in refused.stderr
