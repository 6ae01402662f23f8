"""Goal: a poller tells each member what happened to it, once, and forgets nobody's wake.

Method: socket pairs, one end a member, the other the test's.
"""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from sluicemq.client.poller import NS, SELECTABLE_FDS, Pollable, Poller, Waker

LONG_NS = 60 * NS


class Member(Pollable):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.socket, self.peer = socket.socketpair()
        self.socket.setblocking(False)
        self.fd = self.socket.fileno()
        self.told: list[str] = []

    def on_can_read(self) -> None:
        self.told.append(self.socket.recv(100).decode() or "end")

    def on_can_write(self) -> None:
        self.told.append("room")

    def abandon(self) -> None:
        self.socket.close()


@pytest.fixture
def poller() -> Iterator[Poller]:
    with closing(Poller()) as made:
        yield made


@pytest.fixture
def member(poller: Poller) -> Iterator[Member]:
    made = Member()
    poller.add(made)
    yield made
    made.peer.close()


def test_a_member_is_told_of_what_it_asked_for(poller: Poller, member: Member) -> None:
    poller.poll(0)
    assert member.told == []
    member.peer.send(b"one")
    assert poller.poll(LONG_NS) is False
    assert member.told == ["one"]
    poller.want(member, readable=False, writable=True)
    member.peer.send(b"two")
    poller.poll(LONG_NS)
    assert member.told == ["one", "room"]
    poller.want(member, readable=True, writable=False)
    poller.poll(LONG_NS)
    assert member.told == ["one", "room", "two"]


def test_who_wants_nothing_is_told_of_the_end_all_the_same(poller: Poller, member: Member) -> None:
    poller.want(member, readable=False, writable=False)
    member.peer.send(b"one")
    poller.poll(0)
    assert member.told == []
    member.peer.close()
    poller.poll(LONG_NS)
    poller.poll(LONG_NS)
    assert member.told == ["one", "end"]


def test_what_a_member_raises_comes_out(poller: Poller, member: Member) -> None:
    member.socket.close()
    member.socket = socket.socket()  # it has nothing to read: recv raises
    member.fd, old = os.dup(member.peer.fileno()), member.fd
    poller.add(member, writable=True)
    assert old != member.fd
    member.on_can_write = member.on_can_read  # type: ignore[method-assign]
    with pytest.raises(OSError, match="not connected"):
        poller.poll(LONG_NS)


def test_a_member_that_left_in_its_first_call_gets_no_second(poller: Poller) -> None:
    class Leaver(Member):
        def on_can_write(self) -> None:
            super().on_can_write()
            poller.remove(self)

    leaver = Leaver()
    poller.add(leaver, writable=True)
    leaver.peer.send(b"unheard")
    poller.poll(LONG_NS)
    assert leaver.told == ["room"]
    assert not poller.has_members
    poller.remove(leaver)  # once more does no harm
    leaver.peer.close()
    leaver.abandon()


def test_a_watched_descriptor_ends_the_wait_as_long_as_it_is_readable(
    poller: Poller, member: Member
) -> None:
    ours, theirs = socket.socketpair()
    poller.watch(ours.fileno())
    theirs.send(b"x")
    assert poller.poll(LONG_NS)
    assert poller.poll(LONG_NS)
    ours.recv(1)
    assert not poller.poll(0)
    member.peer.send(b"one")
    theirs.send(b"x")
    assert poller.poll(LONG_NS)
    assert member.told == ["one"]
    ours.close()
    theirs.close()


def test_a_wake_before_the_wait_and_one_during_it_are_seen(poller: Poller) -> None:
    waker = Waker(poller)
    waker.wake()
    waker.wake()
    poller.poll(LONG_NS)
    assert waker.woken
    waker.woken = False
    poller.poll(0)
    assert not waker.woken
    thread = threading.Thread(target=waker.wake)
    thread.start()
    poller.poll(LONG_NS)
    thread.join()
    assert waker.woken


def test_closing_abandons_the_members(member: Member, poller: Poller) -> None:
    poller.close()
    assert member.socket.fileno() == -1


def test_a_descriptor_beyond_those_of_select_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft <= SELECTABLE_FDS + 8:
        monkeypatch.setattr("sluicemq.client.poller.SELECTABLE_FDS", 0)
        held = []
    else:
        held = [os.dup(0) for _ in range(SELECTABLE_FDS)]
    try:
        with closing(Poller()) as poller:
            member = Member()
            poller.add(member)
            began = time.monotonic()
            poller.poll(NS // 100)
            assert time.monotonic() - began >= 0.01
            member.peer.send(b"one")
            poller.poll(LONG_NS)
            assert member.told == ["one"]
            member.peer.close()
    finally:
        for fd in held:
            os.close(fd)
