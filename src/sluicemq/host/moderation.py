"""How long sockets are left alone before the next look at them: interrupt moderation, as network
cards have it.

A look, the round behind it and a commit cost much the same whether they serve one message or fifty.
When many clients bring a little each, and do not wait for an answer before they send more, a look
every few milliseconds serves several messages of each together, for a fraction of the CPU time.
Where clients do wait for answers the same pause would slow them down, and where each sends seldom
it saves nothing. So it is tried step by step, and given up when less comes in with it than without,
or when it does not pay (docs/decisions/0034-a-pause-before-the-next-look.md).

A node that gets more from other nodes than from clients has a part in what nodes agree on, step by
step. Its clients wait for several nodes anyway, and each step serves the more of them the more come
together. So its pauses are longer, and so are the times after which they are judged
(docs/decisions/0043-longer-pauses-of-linked-nodes.md). With the longest pause every other look is
at links alone: what clients send begins a row of steps, which the links carry on
(docs/decisions/0051-every-other-look-is-for-links.md).
"""

from __future__ import annotations

from time import perf_counter_ns, sleep, thread_time_ns
from typing import Final

NS_PER_MS: Final = 1_000_000

FIRST_PAUSE_NS: Final = NS_PER_MS
"""The pause that is tried first, in nanoseconds from one look to the next; then twice as long, and
so on up to the longest that is permitted."""

WAIT_MIN_NS: Final = 100_000
"""What is left of a pause is not waited for when it is shorter: the system wakes nobody exactly."""

EPOCH_NS: Final = 5 * NS_PER_MS
"""A socket counts once in so many nanoseconds, however often it has something."""

CROWD: Final = 12
"""So many sockets at least must have something in an epoch, on average, for a pause to be worth
it."""

LITTLE_BYTES: Final = 4096
"""At the most this much comes by a read, on average, when a pause is tried: with more there is
enough to do at once already."""

PERIOD_NS: Final = 100 * NS_PER_MS
"""How long a pause is kept before what came in with it is judged."""

LOSS: Final = 0.15
"""The part of what comes in that may be missing by chance. When more is missing, clients wait for
answers."""

GAIN: Final = 0.1
"""The part of the CPU time for each byte that a pause must save."""

PROBE_MIN_NS: Final = 200 * NS_PER_MS
PROBE_MAX_NS: Final = 3_000 * NS_PER_MS
"""After so long with the longest pause, a period without any shows whether more comes in then, and
what it costs; each further time after twice as long, up to the maximum. The first times come soon,
because what was before the pause says little: clients may have been connecting."""

RETRY_MIN_NS: Final = 1_000 * NS_PER_MS
"""How long a pause that was given up is not tried again; each further time twice as long..."""
RETRY_MAX_NS: Final = 64_000 * NS_PER_MS
"""... up to this."""

LINKED_PAUSES: Final = 3
"""How many times as long pauses may be while links to other nodes bring more than half of what
comes; then the first one is as long as the longest is otherwise, and the second one is the
longest..."""
LINKED_PERIODS: Final = 5
"""... and so are periods, and the times between trials and probes. The first period with another
pause says little: what all nodes agree on is under way for a while."""
LINKED_LOSS: Final = 0.3
"""Then this is the part that may be missing by chance, for publishers who were held up have
something left to send in the next period."""

CLIENTS_PART: Final = 0.01
"""If clients bring this part of what comes, what they bring is judged by itself: links bring fewer
bytes for the same messages when more of these come together."""


class Moderation:
    """Decides on the pause between two looks by what the looks bring in, and what that costs;
    `pause_max_ms` is the longest in milliseconds, 0 for none at all."""

    def __init__(self, pause_max_ms: int) -> None:
        self.pause_max_ns = pause_max_ms * NS_PER_MS
        self.pause_ns = 0
        """Nanoseconds from one look to the next, at least."""
        self.looked_ns = perf_counter_ns()
        """When the last look began."""
        self.epoch = 0
        """The number of the epoch of that look."""
        self.began_ns = self.looked_ns
        """When the period under way began. Since then:"""
        self.sockets = 0
        """... the sockets that had something, each once an epoch."""
        self.reads = 0
        """... the reads that brought something."""
        self.read_bytes = 0
        """... the bytes that they brought."""
        self.link_bytes = 0
        """... those of them that came over links to other nodes."""
        self.is_linked = False
        """Links brought more than clients in the last period."""
        self.is_settling = False
        """The pause is new, so that the period under way says little about it."""
        self.cpu_ns = 0
        """The CPU time of this thread at the beginning of the period."""
        self.is_by_clients = False
        """What clients have brought was judged, not what links have."""
        self.rate = 0.0
        """Bytes a second that come in without a pause, as far as it is known."""
        self.cost = 0.0
        """Nanoseconds of CPU time for each byte without a pause."""
        self.kept_ns = 0
        """The pause that is left out in this period, as a probe; 0: it is no probe."""
        self.probe_ns = PROBE_MIN_NS
        """How long the longest pause lasts before the next probe."""
        self.probe_at_ns = 0
        self.retry_ns = RETRY_MIN_NS
        self.retry_at_ns = 0
        self.has_waited = False
        """True when the last look has waited for what was left of the pause."""
        self.is_for_links = False
        """True while the next look is at links to other nodes, and leaves clients alone."""

    def begin(self, is_busy: bool) -> bool:
        """Begin a look, after what is left of the pause. Returns False when it is not time yet and
        the caller `is_busy`: nobody is to wait then."""
        now = perf_counter_ns()
        self.has_waited = False
        if self.pause_ns:
            left = self.looked_ns + self.pause_ns - now
            if left > WAIT_MIN_NS:
                if is_busy:
                    return False
                sleep(left / 1e9)
                self.has_waited = True
                now = perf_counter_ns()
        self.looked_ns = now
        self.epoch = now // EPOCH_NS
        is_alternate = self.is_linked and self.pause_ns > 0 and self.pause_ns == self.longest_ns
        self.is_for_links = is_alternate and not self.is_for_links
        if now - self.began_ns >= self.periods * PERIOD_NS:
            self.judge(now)
        return True

    def left_s(self, timeout_s: float) -> float:
        """Return `timeout_s`, where a negative number is no limit, or the seconds that are left of
        the pause if these are fewer."""
        left = max(0.0, (self.looked_ns + self.pause_ns - perf_counter_ns()) / 1e9)
        return left if timeout_s < 0 else min(left, timeout_s)

    def judge(self, now: int) -> None:
        """Decide on the pause for the period that begins now, by the one that ends."""
        elapsed = now - self.began_ns
        cpu_ns = thread_time_ns()
        is_crowd = self.sockets * EPOCH_NS >= CROWD * elapsed
        is_little = self.read_bytes <= self.reads * LITTLE_BYTES
        before = self.is_linked, self.is_by_clients
        client_bytes = self.read_bytes - self.link_bytes
        self.is_linked = self.link_bytes > client_bytes
        self.is_by_clients = client_bytes > CLIENTS_PART * self.read_bytes
        judged_bytes = client_bytes if self.is_by_clients else self.read_bytes
        rate = judged_bytes * 1e9 / elapsed
        cost = (cpu_ns - self.cpu_ns) / max(judged_bytes, 1)
        before_ns = self.pause_ns
        self.began_ns = now
        self.cpu_ns = cpu_ns
        self.sockets = self.reads = self.read_bytes = self.link_bytes = 0
        if not is_crowd or before != (self.is_linked, self.is_by_clients):
            self.pause_ns = self.kept_ns = 0
        elif self.is_settling:
            if self.pause_ns and self.is_loss(rate, self.rate):
                self.give_up(now)
        elif self.kept_ns:
            self.probed(rate, cost, now)
        elif self.pause_ns:
            self.paused(rate, cost, now)
        elif is_little and now >= self.retry_at_ns and self.pause_max_ns:
            self.rate = rate
            self.cost = cost
            first_ns = self.pause_max_ns if self.is_linked else FIRST_PAUSE_NS
            self.pause_ns = min(first_ns, self.pause_max_ns)
        self.is_settling = self.is_linked and self.pause_ns != before_ns

    @property
    def longest_ns(self) -> int:
        """Return the longest pause that is permitted now, in nanoseconds."""
        return self.pause_max_ns * (LINKED_PAUSES if self.is_linked else 1)

    @property
    def periods(self) -> int:
        """Return how many times as long as usual a period is now."""
        return LINKED_PERIODS if self.is_linked else 1

    @property
    def probe_after_ns(self) -> int:
        """Return after how long the next probe is due, in nanoseconds. What other nodes do costs
        more to disturb, and does not change as quickly."""
        return self.periods * (PROBE_MAX_NS if self.is_linked else self.probe_ns)

    def is_loss(self, rate: float, without: float) -> bool:
        """Tell whether so much less comes in with a pause, at `rate`, than `without` any that this
        is no chance; both in bytes a second."""
        return rate < without * (1 - (LINKED_LOSS if self.is_linked else LOSS))

    def paused(self, rate: float, cost: float, now: int) -> None:
        """Judge a period in which there were pauses."""
        is_longest = self.pause_ns == self.longest_ns
        if self.is_loss(rate, self.rate) or (is_longest and cost > self.cost * (1 - GAIN)):
            self.give_up(now)
        elif not is_longest:
            longer_ns = self.longest_ns if self.is_linked else 2 * self.pause_ns
            self.pause_ns = min(longer_ns, self.longest_ns)
            self.probe_at_ns = now + self.probe_after_ns
        elif now >= self.probe_at_ns:
            self.rate = rate
            self.kept_ns, self.pause_ns = self.pause_ns, 0

    def probed(self, rate: float, cost: float, now: int) -> None:
        """Judge a period in which a pause was left out."""
        self.pause_ns, self.kept_ns = self.kept_ns, 0
        if self.is_loss(self.rate, rate):
            self.give_up(now)
            return
        self.rate = rate
        self.cost = cost
        if self.probe_ns == PROBE_MAX_NS:
            self.retry_ns = RETRY_MIN_NS
        self.probe_ns = min(2 * self.probe_ns, PROBE_MAX_NS)
        self.probe_at_ns = now + self.probe_after_ns

    def give_up(self, now: int) -> None:
        """Have no pause for some time."""
        self.pause_ns = 0
        self.probe_ns = PROBE_MIN_NS
        self.retry_at_ns = now + self.periods * self.retry_ns
        self.retry_ns = min(2 * self.retry_ns, RETRY_MAX_NS)
