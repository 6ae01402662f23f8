"""What is done to the nodes of a cluster, and undone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from cluster.link_proxies import LinkProxies
from cluster.sites import Site

SLOW_S: Final = 0.2


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong from `begin` until `end`. `is_survived`: those that are left are a
    majority, and hear each other."""

    name: str
    of: str
    begin: Callable[[], None]
    end: Callable[[], None]
    is_survived: bool = True
    is_of_network: bool = False
    """What is said meanwhile is held up or lost."""
    is_done: Callable[[], bool] = lambda: True
    """Whether that which `begin` has begun is done, so that it may end."""

    def __str__(self) -> str:
        return f"{self.name} {self.of}".strip()


def kill(site: Site, number: int) -> Fault:
    node = site.node(number)
    return Fault("kill -9", f"n{number}", lambda: end_all(site, number), node.start)


def kill_all(site: Site, _: int) -> Fault:
    def start() -> None:
        for each in site.nodes:
            each.start()

    return Fault("kill -9 of all", "", lambda: end_all(site, *site.numbers), start, False)


def end_all(site: Site, *numbers: int) -> None:
    for number in numbers:
        site.node(number).send_signal(signal.SIGKILL)
    for number in numbers:
        site.node(number).end(signal.SIGKILL)


def stop(site: Site, number: int) -> Fault:
    """It is told to stop; while it does so its clients are served."""
    node = site.node(number)

    def start_again() -> None:
        code = node.wait()
        assert code == 0, f"told to stop, it ended with {code}"
        node.start()

    def has_stopped() -> bool:
        assert node.process is not None
        return node.process.poll() is not None

    def tell() -> None:
        node.send_signal(signal.SIGTERM)

    return Fault("SIGTERM", f"n{number}", tell, start_again, is_done=has_stopped)


def pause(site: Site, number: int) -> Fault:
    node = site.node(number)
    return Fault(
        "SIGSTOP",
        f"n{number}",
        lambda: node.send_signal(signal.SIGSTOP),
        lambda: node.send_signal(signal.SIGCONT),
    )


def cut_off(site: Site, number: int) -> Fault:
    """It and the others do not hear each other."""
    others = [each for each in site.numbers if each != number]
    both = [(number, each) for each in others] + [(each, number) for each in others]
    return of_network(site, "cut off", f"n{number}", both)


def deafen(site: Site, number: int) -> Fault:
    """It hears nobody; the others hear it."""
    ways = [(each, number) for each in site.numbers if each != number]
    return of_network(site, "deaf", f"n{number}", ways)


def mute(site: Site, number: int) -> Fault:
    """Nobody hears it; it hears the others."""
    ways = [(number, each) for each in site.numbers if each != number]
    return of_network(site, "mute", f"n{number}", ways)


def cut_link(site: Site, number: int) -> Fault:
    """It and the next one do not hear each other, but both hear the others."""
    other = number % len(site.nodes) + 1
    return of_network(site, "cut link", f"n{number}-n{other}", [(number, other), (other, number)])


def of_network(site: Site, name: str, of: str, ways: list[tuple[int, int]]) -> Fault:
    network = site.network
    assert network is not None
    return Fault(name, of, lambda: network.cut(*ways), network.heal, is_of_network=True)


def slow(site: Site, number: int) -> Fault:
    """All that it hears and says takes a while."""
    assert isinstance(site.network, LinkProxies)
    proxies = site.network
    return Fault("slow", f"n{number}", lambda: proxies.slow(number, SLOW_S), proxies.heal)


def reset(site: Site, number: int) -> Fault:
    """Its connections to the next one end; they may connect again at once."""
    assert isinstance(site.network, LinkProxies)
    proxies = site.network
    other = number % len(site.nodes) + 1
    return Fault("reset", f"n{number}-n{other}", lambda: proxies.reset(number, other), lambda: None)


Making = Callable[[Site, int], Fault]
ALONE: Final[tuple[Making, ...]] = (kill_all,)
PROCESS: Final[tuple[Making, ...]] = (kill, pause, kill, stop, kill, kill_all)
NETWORK: Final[tuple[Making, ...]] = (cut_off, deafen, cut_link, mute)
PROXIES: Final[tuple[Making, ...]] = (slow, reset)


def plan(site: Site, count: int, dice: Random) -> list[Fault]:
    """So many faults, of all kinds that this site can have, each kind about as often."""
    kinds: tuple[Making, ...] = (*PROCESS, *NETWORK)
    if isinstance(site.network, LinkProxies):
        kinds = (*kinds, *PROXIES)
    if len(site.nodes) == 1:
        kinds = ALONE
    faults: list[Fault] = []
    while len(faults) < count:
        kinds = tuple(dice.sample(kinds, len(kinds)))
        faults += [kind(site, dice.choice(site.numbers)) for kind in kinds]
    return faults[:count]
