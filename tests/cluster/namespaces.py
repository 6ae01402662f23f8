"""A network of the tests' own, for nodes that must be cut off from each other whatever they speak.

Each node has a network namespace with one address, on a bridge in the namespace of the tests
themselves, from where clients reach all of them. A node that is not to hear another one has a rule
of routing that throws away what comes from there: packets are lost, and nobody is told. Nothing of
it is seen outside, or stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from support.waiting import await_truth

INSIDE: Final = "OWN_NETWORK_OF_TESTS"
NETWORK: Final = "10.77.0"
FIRST_RULE: Final = 10
"""Above the rule by which a packet for this node is taken in."""


def enter() -> None:
    """Begin this program anew in a network namespace of its own, unless it is in one. SystemExit
    when this machine does not let us."""
    if os.environ.get(INSIDE):
        return
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    unshare = ("unshare", "--net", *user)
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        raise SystemExit("network namespaces cannot be made here: that needs root")
    os.execvpe(
        "unshare",
        [*unshare, sys.executable, *sys.orig_argv[1:]],
        os.environ | {INSIDE: "1"},
    )


class Namespaces:
    """For nodes 1 to `count`; the current namespace must be the tests' own."""

    def __init__(self, count: int) -> None:
        assert os.environ.get(INSIDE), "that would change the machine's network"
        self.count = count
        self._cut: set[tuple[int, int]] = set()
        run("ip link set lo up")
        run("ip link add hub type bridge")
        run(f"ip addr add {NETWORK}.254/24 dev hub")
        run("ip link set hub up")
        self._keepers = [self._make(number) for number in range(1, count + 1)]

    def host(self, number: int) -> str:
        return f"{NETWORK}.{number}"

    def within(self, number: int) -> list[str]:
        """What stands before a command that is to run there."""
        return ["nsenter", f"--net=/proc/{self._keepers[number - 1].pid}/ns/net"]

    def _make(self, number: int) -> subprocess.Popen[bytes]:
        """A process that keeps the namespace until this one ends."""
        keeper = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        await_truth(lambda: os.readlink(f"/proc/{keeper.pid}/ns/net") != own)
        run(f"ip link add hub{number} type veth peer name eth0 netns {keeper.pid}")
        run(f"ip link set hub{number} master hub up")
        inside = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
        run("ip link set lo up", inside)
        run(f"ip addr add {self.host(number)}/24 dev eth0", inside)
        run("ip link set eth0 up", inside)
        run("ip rule add priority 100 lookup local", inside)
        run("ip rule del priority 0 lookup local", inside)
        return keeper

    def cut(self, *ways: tuple[int, int]) -> None:
        """Lose all that goes these ways, from one node to another."""
        for source, target in set(ways) - self._cut:
            self._rule("add", source, target)
        self._cut.update(ways)

    def heal(self) -> None:
        """Everything goes everywhere again."""
        for source, target in self._cut:
            self._rule("del", source, target)
        self._cut.clear()

    def _rule(self, what: str, source: int, target: int) -> None:
        rule = f"priority {FIRST_RULE + source} from {self.host(source)} blackhole"
        run(f"ip rule {what} {rule}", self.within(target))

    def close(self) -> None:
        for number, keeper in enumerate(self._keepers, 1):
            run(f"ip link del hub{number}")  # the kernel does that some time after the keeper's end
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait()
        run("ip link del hub")


def run(command: str, within: Sequence[str] = ()) -> None:
    subprocess.run([*within, *command.split()], check=True)
