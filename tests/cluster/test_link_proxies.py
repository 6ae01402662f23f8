"""Goal: what goes from one node to another can be held up, whichever of the two has connected.

Method: this process is both nodes, so the one that connects is node 1, which is looked for first.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from cluster.link_proxies import LinkProxies, has_socket, inode_of
from support.served import own_hosts

PORT = 25_790
RESET = struct.pack("ii", 1, 0)
"""A socket that lingers for no time leaves nothing behind."""


@pytest.fixture
def pair() -> Iterator[tuple[LinkProxies, socket.socket, socket.socket]]:
    """The proxies, node 1's end of a connection, and node 2's."""
    shown, real = ([(host, PORT) for host in own_hosts(2, first)] for first in (31, 41))
    proxies = LinkProxies(shown, real, lambda number: os.getpid() if number == 1 else None)
    with socket.create_server(real[1]) as listener:
        listener.settimeout(60)
        near = socket.create_connection(shown[1], 60)
        far, _ = listener.accept()
        with near, far:
            yield proxies, near, far
    proxies.close()


def nothing_comes(to: socket.socket) -> bool:
    to.settimeout(0.2)
    with suppress(TimeoutError):
        to.recv(100)
        return False
    to.settimeout(60)
    return True


def test_one_way_is_cut_and_what_was_held_up_arrives(
    pair: tuple[LinkProxies, socket.socket, socket.socket],
) -> None:
    proxies, near, far = pair
    near.sendall(b"1")
    assert far.recv(100) == b"1"
    proxies.cut((1, 2))
    near.sendall(b"2")
    assert nothing_comes(far)
    far.sendall(b"3")
    assert near.recv(100) == b"3", "the other way is open"
    proxies.heal()
    assert far.recv(100) == b"2"
    proxies.cut((2, 1))
    far.sendall(b"4")
    assert nothing_comes(near)
    proxies.heal()
    assert near.recv(100) == b"4"


def test_connections_end_on_both_sides(
    pair: tuple[LinkProxies, socket.socket, socket.socket],
) -> None:
    proxies, near, far = pair
    near.sendall(b"1")
    assert far.recv(100) == b"1"
    proxies.reset(2, 1)
    assert near.recv(100) == b""
    assert far.recv(100) == b""


def test_two_sockets_at_one_place_are_told_apart_by_where_they_are_connected_to() -> None:
    """The kernel gives a port to several clients if each goes elsewhere."""
    targets = [(host, PORT) for host in own_hosts(2, 61)]
    with ExitStack() as stack:
        place = ("127.0.0.1", 0)
        for target in targets:
            stack.enter_context(socket.create_server(target))
            near = stack.enter_context(socket.socket())
            near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            near.bind(place)
            place = near.getsockname()
            near.connect(target)
            stack.callback(near.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        inodes = [inode_of(place, target) for target in targets]
        assert len({*inodes}) == len(targets)
        assert all(has_socket(os.getpid(), inode) for inode in inodes)


def test_who_is_no_node_is_not_let_in() -> None:
    shown, real = ([(host, PORT) for host in own_hosts(1, first)] for first in (51, 61))
    proxies = LinkProxies(shown, real, lambda _: None)
    with socket.create_connection(shown[0], 60) as stranger:
        assert stranger.recv(100) == b""
    proxies.close()
