"""Requests of clients of the control socket, and their answers: JSON lines.

This module is imported with the first client, and with it everything that commands need, so that a
start does not wait for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from sluicemq.limits import CONTROL_PART_BYTES, CONTROL_TASKS_MAX
from sluicemq.manage.command import LATER, USAGE
from sluicemq.manage.task import CommandAnswer, GoOn, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LOOK_SECONDS: Final = 1.0
"""Seconds between two checks whether a waiting client is still there."""

LONG: Final = 1000
"""A row with an array of more items, or a text of more characters, is written in pieces."""

TEXT_BYTES: Final = 128
"""As many bytes of JSON are written in the time that a piece of it takes, however short it is."""


def parts(answer: CommandAnswer) -> Iterator[bytes]:
    """Return the answer as a line of JSON, in parts, so that a long one does not hold up other
    work."""
    gathered: list[bytes] = []
    size = 0
    for text in texts(answer.as_json()):
        gathered.append(text)
        size += len(text) + TEXT_BYTES
        if size >= CONTROL_PART_BYTES:
            yield b"".join(gathered)
            gathered = []
            size = 0
    yield b"".join((*gathered, b"\n"))


def texts(value: Any) -> Iterator[bytes]:
    """Write a value as JSON, in pieces: each value of an object, each item of an array, each LONG
    characters of a text. They are short unless something deep within the value is long."""
    if isinstance(value, dict):
        before = b"{"
        for key, item in value.items():
            yield b"%b%b: " % (before, as_json(key))
            yield from texts(item)
            before = b", "
        yield b"}" if value else b"{}"
    elif isinstance(value, list):
        before = b"["
        for item in value:
            if is_long(item):
                yield before
                yield from texts(item)
            else:
                yield before + as_json(item)
            before = b", "
        yield b"]" if value else b"[]"
    elif isinstance(value, str):
        yield b'"'
        for at in range(0, len(value), LONG):
            yield as_json(value[at : at + LONG])[1:-1]
        yield b'"'
    else:
        yield as_json(value)


def as_json(value: object) -> bytes:
    """Write a value as JSON in one call. Keys of bindings that are not UTF-8 keep their bytes as
    surrogates, which only the slower of two encoders takes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def is_long(row: object) -> bool:
    """Tell whether a row has a cell that takes long to write as JSON."""
    return isinstance(row, dict) and any(
        isinstance(cell, list | str) and len(cell) > LONG for cell in row.values()
    )


class BegunCommand(Protocol):
    """A command that a task carries out, as the session that waits for it sees it."""

    def post(self, message: object) -> None:
        """Tell the command to go on."""

    def abandon(self) -> None:
        """Tell the command that nobody waits for it any more."""


BeginCommand = Callable[[str, Mapping[str, Any], Reply], BegunCommand]
"""Begins a command with its arguments; it answers by calling the last parameter."""


class AnswerWait:
    """Waits for one answer of a task."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()

    def reply(self, answer: CommandAnswer) -> None:
        """Take the answer, from the task."""
        if not self.answered.done():  # it is, if the broker stopped meanwhile
            self.answered.set_result(answer)

    async def answer(self, task: BegunCommand, reader: asyncio.StreamReader) -> CommandAnswer:
        """Return the answer. Raises ConnectionAbortedError when the client has hung up."""
        answered = self.answered
        while not answered.done():
            await asyncio.wait((answered,), timeout=LOOK_SECONDS)
            if reader.at_eof() and not answered.done():
                task.abandon()
                raise ConnectionAbortedError
        return answered.result()


class ControlSession:
    """Answers the clients of one control socket by calling `begin`."""

    def __init__(self, begin: BeginCommand) -> None:
        self.begin = begin
        self.tasks = 0
        """The number of commands without an answer yet."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client of the control socket until it hangs up."""
        with suppress(ConnectionError):
            while line := await self.line(reader):
                async for answer in self.answers(line, reader):
                    for part in parts(answer):
                        writer.write(part)
                        await writer.drain()
                        await asyncio.sleep(0)  # the broker's turn
        writer.close()

    async def line(self, reader: asyncio.StreamReader) -> bytes:
        """Return the next request; for one that is too long, a line that is no valid request."""
        try:
            return await reader.readline()
        except ValueError:
            return b"too long"

    async def answers(
        self, line: bytes, reader: asyncio.StreamReader
    ) -> AsyncIterator[CommandAnswer]:
        """Carry out a request and yield its answer, or each page of it: the next one is made when
        this one has been taken. The answer to a change comes when it is durable: on a full disk,
        when there is space again. The wait ends when the client hangs up."""
        if self.tasks >= CONTROL_TASKS_MAX:
            yield CommandAnswer((), "too many commands wait for the disk already", LATER)
            return
        try:
            request = json.loads(line)
            command, arguments = str(request["command"]), dict(request.get("arguments", {}))
        except (ValueError, KeyError, TypeError, RecursionError):
            yield CommandAnswer((), 'a request is {"command": ..., "arguments": {...}}', USAGE)
            return
        self.tasks += 1
        try:
            waits = AnswerWait()
            task = self.begin(command, arguments, waits.reply)
            answer = await waits.answer(task, reader)
            while answer.more:
                yield answer
                waits = AnswerWait()
                task.post(GoOn(waits.reply))
                answer = await waits.answer(task, reader)
            yield answer
        finally:
            self.tasks -= 1
