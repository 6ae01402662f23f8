"""A link to a broker that counts, and a clock of the loop that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from sluicemq.management.api_error import BrokerRefused
from sluicemq.management.broker_link import BrokerLink


class Moment:
    """The time by the loop's clock."""

    def __init__(self) -> None:
        self.now_s = 100.0


class CountingLink(BrokerLink):
    """Answers what it was given; `asked` has the commands."""

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        super().__init__(0)
        self.answers = answers
        self.asked: list[str] = []
        self.refusal: BrokerRefused | None = None

    async def pages(self, command: str, /, **arguments: object) -> AsyncIterator[list[Any]]:
        self.asked.append(command)
        if self.refusal is not None:
            raise self.refusal
        yield self.answers[command]


def run(work: Callable[[Moment], Awaitable[None]]) -> None:
    """With a clock that stands still unless the test moves it."""

    async def main() -> None:
        moment = Moment()
        asyncio.get_running_loop().time = lambda: moment.now_s  # type: ignore[method-assign]
        await work(moment)

    asyncio.run(main())
