"""The event loop of all clients: it tells members when they can read or write.

    wire              one transport, whose caller waits here for its broker
    lab worker        hundreds of transports and the pipe to the conductor
    Spark's consumer  one transport, and the planner's thread wakes it through a `Waker`

A poller belongs to one thread. It calls a member's methods when something happens to the member,
and `poll` raises whatever they raise.
"""

from __future__ import annotations

import os
import select
from typing import Final

NS: Final = 1_000_000_000

SELECTABLE_FDS: Final = 1024
"""The first descriptor that select(2) cannot wait for."""


class Pollable:
    """A member of a poller: a descriptor, and what to do when something happens to it."""

    __slots__ = ("fd",)

    fd: int

    def on_can_read(self) -> None:
        """Called when the descriptor has something to read, including its end and its errors."""
        raise NotImplementedError

    def on_can_write(self) -> None:
        """Called when the descriptor takes bytes, if that was requested."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Close the descriptor at once."""
        raise NotImplementedError


class Poller:
    """The loop that waits until something happens to its members; it belongs to one thread."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._members: dict[int, Pollable] = {}
        self._watched: set[int] = set()

    def add(self, member: Pollable, *, writable: bool = False) -> None:
        """Watch a member for something to read, and with `writable` also for room to write."""
        events = select.EPOLLIN | select.EPOLLOUT if writable else select.EPOLLIN
        self._epoll.register(member.fd, events)
        self._members[member.fd] = member

    def remove(self, member: Pollable) -> None:
        """Stop watching a member, before its descriptor is closed; nothing happens if it is no
        member. The descriptor must still be open."""
        if self._members.get(member.fd) is member:
            del self._members[member.fd]
            self._epoll.unregister(member.fd)

    def want(self, member: Pollable, *, readable: bool, writable: bool) -> None:
        """Choose the events of a member from now on; its errors and its end always call
        `on_can_read`."""
        events = select.EPOLLIN if readable else 0
        self._epoll.modify(member.fd, events | select.EPOLLOUT if writable else events)

    def watch(self, fd: int) -> None:
        """Make `poll` end and return True while `fd`, which is no member, is readable."""
        self._watched.add(fd)
        self._epoll.register(fd, select.EPOLLIN)

    def poll(self, timeout_ns: int) -> bool:
        """Wait at most `timeout_ns` for something to happen, and tell each member once.

        Returns whether a watched descriptor that is no member is readable. Raises whatever members
        raise.
        """
        ready = self._epoll.poll(0)
        if not ready and timeout_ns > 0:
            self._wait(timeout_ns)
            ready = self._epoll.poll(0)
        woken = False
        members = self._members
        for fd, events in ready:
            member = members.get(fd)
            if member is None:
                woken |= fd in self._watched
                continue
            if events & select.EPOLLOUT:
                member.on_can_write()
            if events & ~select.EPOLLOUT and members.get(fd) is member:
                member.on_can_read()
        return woken

    @property
    def has_members(self) -> bool:
        """Tell whether any member is left; descriptors that are only watched do not count."""
        return bool(self._members)

    def close(self) -> None:
        """Abandon every member and close the poller's own descriptor."""
        for member in list(self._members.values()):
            member.abandon()
        self._epoll.close()

    def _wait(self, timeout_ns: int) -> None:
        """Wait more finely than epoll's whole milliseconds by select on its descriptor, if select
        supports the descriptor."""
        if self._epoll.fileno() < SELECTABLE_FDS:
            select.select((self._epoll,), (), (), timeout_ns / NS)
        else:
            self._epoll.poll(timeout_ns / NS)


class Waker(Pollable):
    """A member of `poller` through which another thread ends the wait of the poller's thread."""

    __slots__ = ("woken",)

    def __init__(self, poller: Poller) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        poller.add(self)
        self.woken = False
        """`wake` was called since this was set to False, and a poll has noticed it."""

    def wake(self) -> None:
        """End the wait of the poller's thread, from any thread. A wake before the wait
        is not lost.
        """
        os.eventfd_write(self.fd, 1)

    def on_can_read(self) -> None:
        os.eventfd_read(self.fd)
        self.woken = True

    def abandon(self) -> None:
        os.close(self.fd)
