"""asyncio's event loop, which waits for its descriptors by looking at the broker's sockets.

Nothing of asyncio runs for what the sockets bring: while the loop waits, the poller looks at them
again and again, and gives the actors their rounds (docs/decisions/0040-a-wait-by-the-poller.md).
The wait ends when asyncio has something to do itself: a timer, a callback, a descriptor of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from selectors import EpollSelector
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context
    from selectors import SelectorKey

Arguments = TypeVarTuple("Arguments")


class LoopPoller(Protocol):
    """A poller, as the event loop sees it (`host/poller.py`, `SocketPoller`)."""

    is_called: bool
    watched: dict[int, Callable[[], object]]

    def watch(self, descriptor: int, callback: Callable[[], object], /) -> None:
        """Call `callback` in each look in which the descriptor is readable."""

    def watch_no_more(self, descriptor: int, /) -> bool:
        """Watch that descriptor no longer. Returns whether it was watched."""

    def wait(self, timeout_s: float, /) -> bool:
        """Look at the sockets until the event loop has something to do. Returns True when one of
        its own descriptors has something."""

    def end_wait(self) -> None:
        """Have the event loop look at its own descriptors, one of which has something."""

    def called_at(self, when_s: float, /) -> None:
        """Note that the event loop has something to do at that time of its clock."""


class PollerSelector(EpollSelector):
    """asyncio's descriptors. While there is a poller, its epoll watches that of this selector, and
    whoever waits for this selector waits for the poller."""

    def __init__(self) -> None:
        super().__init__()
        self.poller: LoopPoller | None = None

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if self.poller is None:
            return super().select(timeout)
        if self.poller.wait(-1.0 if timeout is None else max(timeout, 0.0)):
            return super().select(0)
        return []


class BrokerLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop around a poller, if one is attached."""

    def __init__(self) -> None:
        self.selector = PollerSelector()
        super().__init__(self.selector)

    def attach(self, poller: LoopPoller) -> bool:
        """Wait by this poller from now on. Returns False, and does nothing, if there is one."""
        if self.selector.poller is not None:
            return False
        poller.watch(self.selector.fileno(), poller.end_wait)
        self.selector.poller = poller
        return True

    def detach(self, poller: LoopPoller) -> None:
        """Wait by that poller no longer. What it watched for others is watched without it."""
        poller.watch_no_more(self.selector.fileno())
        self.selector.poller = None
        for number, callback in [*poller.watched.items()]:
            poller.watch_no_more(number)
            self.add_reader(number, callback)

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self.selector.poller is not None:
            self.selector.poller.is_called = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self.selector.poller is not None:
            self.selector.poller.called_at(when)
        return super().call_at(when, callback, *args, context=context)

    def add_reader(self, fd: Any, callback: Callable[[*Arguments], Any], *args: *Arguments) -> None:
        """Call `callback` when the descriptor is readable: at once in a look at the sockets, if
        there is a poller."""
        poller = self.selector.poller
        if poller is None:
            super().add_reader(fd, callback, *args)
        else:
            poller.watch(number_of(fd), partial(callback, *args) if args else callback)

    def remove_reader(self, fd: Any) -> bool:
        poller = self.selector.poller
        is_watched = poller is not None and poller.watch_no_more(number_of(fd))
        return is_watched or super().remove_reader(fd)


def number_of(fd: Any) -> int:
    """Return the number of a descriptor, given so or as an object that has it."""
    return fd if isinstance(fd, int) else int(fd.fileno())
