"""Goal: the pause between two looks is there where it saves CPU time and costs no throughput, and
nowhere else.

Method: clients and a broker by formula. A look costs LOOK_NS, and each message MESSAGE_NS; clients
send at their own pace, or as soon as they are answered. A clock that only these move.
"""

from __future__ import annotations

import pytest

from sluicemq.host import moderation as module
from sluicemq.host.moderation import NS_PER_MS, PERIOD_NS, PROBE_MAX_NS, Moderation

PAUSE_MAX_MS = 5
SIZE = 1_000
MESSAGE_NS = 3_000
LOOK_NS = 40_000
REST_NS = 10_000
"""From the end of a look to the next, at least."""


class Bench:
    """A broker, `clients` of which each sends a message every `pace_ns`; 0: as soon as it is
    answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clients: int, pace_ns: int) -> None:
        self.now_ns = 0
        self.cpu_ns = 0
        self.look_ns = LOOK_NS
        self.size = SIZE
        self.pace_ns = pace_ns
        monkeypatch.setattr(module, "perf_counter_ns", lambda: self.now_ns)
        monkeypatch.setattr(module, "thread_time_ns", lambda: self.cpu_ns)
        monkeypatch.setattr(module, "sleep", self.sleep)
        self.moderation = Moderation(PAUSE_MAX_MS)
        self.next_ns = [client * pace_ns // max(clients, 1) for client in range(clients)]
        self.epochs = [0] * clients
        self.messages = 0
        self.looks = self.link_looks = 0
        self.linked_percent = 0
        """The part of all bytes that other nodes send."""
        self.head_bytes = 0
        """What they send beside that in each look."""

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= self.moderation.longest_ns / 1e9
        self.now_ns += round(seconds * 1e9)

    def run(self, milliseconds: int) -> float:
        """Have looks for so long; return the messages a millisecond."""
        before = self.messages
        end_ns = self.now_ns + milliseconds * NS_PER_MS
        while self.now_ns < end_ns:
            is_for_links = self.moderation.is_for_links
            assert self.moderation.begin(False)
            self.look(is_for_links)
        return (self.messages - before) / milliseconds

    def look(self, is_for_links: bool) -> None:
        moderation = self.moderation
        used_ns = self.look_ns
        self.looks += 1
        self.link_looks += is_for_links
        for client, next_ns in enumerate([] if is_for_links else self.next_ns):
            sent = self.sent(client, next_ns)
            if sent:
                moderation.sockets += self.epochs[client] != moderation.epoch
                self.epochs[client] = moderation.epoch
                moderation.reads += 1
                moderation.read_bytes += sent * self.size
                moderation.link_bytes += sent * self.size * self.linked_percent // 100
                self.messages += sent
                used_ns += sent * MESSAGE_NS
        moderation.read_bytes += self.head_bytes
        moderation.link_bytes += self.head_bytes
        self.cpu_ns += used_ns
        self.now_ns += used_ns + REST_NS

    def sent(self, client: int, next_ns: int) -> int:
        """The messages that a client has sent since it was looked at last."""
        if next_ns > self.now_ns:
            return 0
        if not self.pace_ns:
            self.next_ns[client] = self.now_ns + LOOK_NS
            return 1
        count = (self.now_ns - next_ns) // self.pace_ns + 1
        self.next_ns[client] += count * self.pace_ns
        return count


def test_clients_that_send_at_their_pace_are_looked_at_seldom_and_none_of_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, clients=20, pace_ns=NS_PER_MS)
    bench.run(4_000)
    assert bench.moderation.pause_ns == PAUSE_MAX_MS * NS_PER_MS
    looks, cpu_ns = bench.looks, bench.cpu_ns
    rate = bench.run(2_000)
    assert rate == pytest.approx(20, rel=0.01)
    assert bench.looks - looks <= 2_000 / PAUSE_MAX_MS + 1
    assert bench.cpu_ns - cpu_ns < 0.8 * (2_000 * (LOOK_NS + 20 * MESSAGE_NS))


@pytest.mark.parametrize(("linked_percent", "pause_ms"), [(40, 5), (60, 15)])
def test_a_node_that_gets_more_from_other_nodes_than_from_clients_pauses_longer(
    monkeypatch: pytest.MonkeyPatch, linked_percent: int, pause_ms: int
) -> None:
    bench = Bench(monkeypatch, clients=100, pace_ns=5 * NS_PER_MS)
    bench.linked_percent = linked_percent
    bench.look_ns = 400_000
    bench.run(2_600)
    assert bench.moderation.pause_ns == pause_ms * NS_PER_MS
    bench.linked_percent = 0
    bench.run(2_000)
    assert bench.moderation.pause_ns == PAUSE_MAX_MS * NS_PER_MS


def test_every_other_look_between_the_longest_pauses_of_linked_nodes_leaves_clients_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, clients=100, pace_ns=5 * NS_PER_MS)
    bench.look_ns = 400_000
    bench.run(6_000)
    assert bench.moderation.pause_ns == PAUSE_MAX_MS * NS_PER_MS
    assert not bench.link_looks
    bench.linked_percent = 60
    bench.run(12_000)
    assert bench.moderation.pause_ns == bench.moderation.longest_ns
    looks, link_looks = bench.looks, bench.link_looks
    rate = bench.run(1_000)
    assert rate == pytest.approx(20, rel=0.05)
    assert abs(bench.looks - looks - 2 * (bench.link_looks - link_looks)) <= 1
    bench.moderation.pause_ns = 0
    bench.run(100)
    link_looks = bench.link_looks
    bench.run(100)
    assert bench.link_looks == link_looks


def test_what_publishers_were_held_up_with_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, clients=100, pace_ns=5 * NS_PER_MS)
    bench.linked_percent = 60
    bench.look_ns = 400_000
    bench.run(6_000)
    bench.moderation.probe_at_ns = bench.now_ns
    bench.run(PERIOD_NS * module.LINKED_PERIODS // NS_PER_MS)
    assert bench.moderation.kept_ns
    bench.moderation.read_bytes *= 10
    bench.moderation.link_bytes *= 10
    bench.run(2 * PERIOD_NS * module.LINKED_PERIODS // NS_PER_MS)
    assert bench.moderation.pause_ns == 15 * NS_PER_MS


@pytest.mark.parametrize("linked_percent", [90, 100])
def test_what_links_bring_less_when_more_comes_together_is_no_loss(
    monkeypatch: pytest.MonkeyPatch, linked_percent: int
) -> None:
    """Each look of other nodes has a head of its own, which takes half of what comes by links."""
    bench = Bench(monkeypatch, clients=100, pace_ns=5 * NS_PER_MS)
    bench.linked_percent = linked_percent
    bench.look_ns = 400_000
    bench.head_bytes = 20_000
    bench.run(6_000)
    pause_ms = bench.moderation.pause_ns // NS_PER_MS
    assert pause_ms == (15 if linked_percent < 100 else 0), "without clients it cannot be known"


@pytest.mark.parametrize(("linked_percent", "milliseconds"), [(0, 20_000), (60, 100_000)])
def test_clients_that_wait_for_answers_lose_little(
    monkeypatch: pytest.MonkeyPatch, linked_percent: int, milliseconds: int
) -> None:
    bench = Bench(monkeypatch, clients=20, pace_ns=0)
    bench.linked_percent = linked_percent
    bench.moderation.retry_at_ns = 1 << 62
    rate = bench.run(1_000)
    bench.moderation.retry_at_ns = 0
    assert bench.run(milliseconds) > 0.95 * rate
    assert bench.moderation.pause_ns == 0
    assert bench.moderation.retry_ns > 8 * module.RETRY_MIN_NS


def test_clients_that_begin_to_wait_for_answers_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, clients=20, pace_ns=NS_PER_MS)
    bench.run(1_000)
    assert bench.moderation.pause_ns
    bench.pace_ns = 0
    bench.run(2 * (PROBE_MAX_NS + PERIOD_NS) // NS_PER_MS)
    assert bench.moderation.pause_ns == 0


def test_a_pause_that_does_not_pay_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, clients=400, pace_ns=33 * NS_PER_MS)
    bench.look_ns = 10
    bench.run(1_000)
    assert bench.moderation.pause_ns == 0
    assert bench.moderation.retry_at_ns > 0


def test_what_was_dear_before_the_pause_is_soon_compared_with_what_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hundreds of clients that connect take much CPU time for few bytes."""
    bench = Bench(monkeypatch, clients=400, pace_ns=33 * NS_PER_MS)
    bench.look_ns = 400_000
    bench.run(250)
    assert bench.moderation.pause_ns
    bench.look_ns = 10
    bench.run(1_000)
    assert bench.moderation.pause_ns == 0


@pytest.mark.parametrize(
    ("clients", "size", "pause_max_ms"), [(2, SIZE, 5), (20, 100_000, 5), (20, SIZE, 0)]
)
def test_few_clients_or_large_messages_or_who_forbids_it_have_no_pause(
    monkeypatch: pytest.MonkeyPatch, clients: int, size: int, pause_max_ms: int
) -> None:
    bench = Bench(monkeypatch, clients, pace_ns=NS_PER_MS)
    bench.size = size
    bench.moderation.pause_max_ns = pause_max_ms * NS_PER_MS
    bench.run(1_000)
    assert bench.moderation.pause_ns == 0
    assert bench.moderation.retry_at_ns == 0


def test_it_ends_with_the_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, clients=20, pace_ns=NS_PER_MS)
    bench.run(1_000)
    bench.next_ns = bench.next_ns[:3]
    bench.run(2 * PERIOD_NS // NS_PER_MS)
    assert bench.moderation.pause_ns == 0


def test_who_is_busy_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, clients=20, pace_ns=NS_PER_MS)
    bench.run(1_000)
    before = bench.now_ns
    assert not bench.moderation.begin(True)
    assert bench.now_ns == before
    assert bench.moderation.begin(False)
    assert bench.now_ns > before
