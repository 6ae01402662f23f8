"""Serve first: while the broker is the bottleneck it takes in only what it can deliver.

Publishers always come last (`Actor.is_patient`): they get the time that nobody else needs. That is
not enough when consumers are quick: while their acknowledgements are on the way there is time, and
the messages taken in then delay the reading of those acknowledgements. So each queue with consumers
that keep up counts its *lag*: how many more messages it has taken in than dealt out. When the lags
of all queues together pass a limit, of messages or of bytes, publishers are held: they get a little
of each HELD_MS, until the lag is half the limit again. Intake so becomes equal to delivery.

Messages of a replicated queue are under way first, until its members have agreed on them. That
costs more than their intake did, so publishers are also held while more is under way on this node
than is agreed on in UNDER_WAY_MS. Then they get as much as keeps the intake below half of what is
agreed on.

Publishers of a cluster's node whose messages go to queues of another node are held for that one's
sake, too: while its queues lag it says so, again and again (chain/remote/pace_teller.py).

Publishers are not held for consumers that are slow themselves: a queue that deals out less than a
quarter of its intake does not count, and when nothing is dealt out for HELD_MS while nobody has
anything to do, publishers get all the time there is. Nor are they held for a queue that agrees on
nothing. Nor are they held for ever: they always get a little of each HELD_MS, or of each
SPARING_TICKS of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.kernel.actor import INTAKE_WORK, Actor, Scheduler

if TYPE_CHECKING:
    from sluicemq.kernel.world import Clock

HELD_MS: Final = 4
"""Publishers that are held get HELD_WORK each time so many milliseconds have passed."""

HELD_WORK: Final = 400
"""Units of work that held publishers get each time: a tenth of HELD_MS. What follows from them
costs more than twice as much again."""

LAG_MIN: Final = 500
"""Messages that queues may lag behind before anybody is held, however slowly they deal."""

LAG_MS: Final = 50
"""Queues may lag behind by what all of them have dealt out in so many milliseconds."""

LAG_BYTES: Final = 2 << 20
"""Bytes that queues may lag behind: to deliver what is in no processor's cache any more costs
more."""

UNDER_WAY_MS: Final = 250
"""As many messages may be under way as are agreed on in so many milliseconds: a log that waits for
disks and other nodes is never idle then."""

UNDER_WAY_MIN: Final = 1000
"""Messages that may be under way before anybody is held, however slowly queues agree: as many as
one publisher with a wide limit has in flight, when a burst begins, too."""

OTHERS_NS: Final = 500_000_000
"""Publishers are held for another node for so long after it has said that its queues lag."""

SPARING_TICKS: Final = 5
"""Publishers held for messages under way, or for another node, get one turn, at least, each time
so many HELD_MS pass."""

EAGER_PART: Final = 4
"""A queue that deals out less than this part of what it takes in has consumers slow themselves."""

EPOCH_NS: Final = 1_000_000_000
"""The length of the epochs after which it is told anew which queues have consumers that keep up."""


class LagChanged:
    """Tells a follower of the pacer that the queues of this node have begun or ceased to lag."""

    __slots__ = ()


class QueuePace:
    """How one queue keeps up: messages it has taken in, agreed on and delivered, in total and in
    this epoch."""

    __slots__ = (
        "agreed",
        "agreed_before",
        "dealt",
        "dealt_before",
        "epoch",
        "is_eager",
        "is_moving",
        "lag",
        "lag_bytes",
        "not_agreed",
        "taken",
        "taken_before",
        "under_way",
    )

    def __init__(self) -> None:
        self.taken = 0
        self.dealt = 0
        self.taken_before = 0
        """The value of `taken` when the epoch began; `dealt_before` likewise."""
        self.dealt_before = 0
        self.epoch = 0
        self.is_eager = True
        """Did it deal out a fair part of what it took in, in the last epoch?"""
        self.lag = 0
        """Messages that were taken in and not dealt out since the queue last had dealt out all; 0
        unless it is eager."""
        self.lag_bytes = 0
        """About how many bytes these have."""
        self.agreed = 0
        self.agreed_before = 0
        self.is_moving = True
        """Did it agree on anything in the last epoch, if there was anything to agree on?"""
        self.not_agreed = 0
        """Messages that were taken in and are not agreed on."""
        self.under_way = 0
        """The same; 0 unless it is moving."""

    def begin_epoch(self, epoch: int) -> None:
        """Judge by the last epoch; a queue that has been idle since gets the benefit of
        the doubt."""
        taken, dealt = self.taken - self.taken_before, self.dealt - self.dealt_before
        self.is_eager = epoch != self.epoch + 1 or dealt * EAGER_PART >= taken
        has_agreed = self.agreed > self.agreed_before or not self.not_agreed
        self.is_moving = epoch != self.epoch + 1 or has_agreed
        self.epoch = epoch
        self.taken_before, self.dealt_before = self.taken, self.dealt
        self.agreed_before = self.agreed


class Pacer(Actor):
    """Holds publishers back while queues lag behind, here or on another node. The queues report at
    the end of their turns."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.lag = 0
        """The sum of the lags of all queues; `lag_bytes` likewise."""
        self.lag_bytes = 0
        self.limit = LAG_MIN
        self.lagging: dict[QueuePace, None] = {}
        self.dealt = 0
        """Messages that all queues have dealt out since the start."""
        self.dealt_before = 0
        """The value of `dealt` when the epoch began."""
        self.dealt_at_tick = 0
        self.epoch = 1
        self.epoch_since_ns = clock.now_ns()
        self.lags = False
        """Is so much behind, or under way, here that publishers are held?"""
        self.followers: list[Actor] = []
        """Who is told when that changes."""
        self.others: dict[int, int] = {}
        """The nodes for whose queues publishers are held, and until when, in nanoseconds."""
        self.is_held = False
        self.held_count = 0
        self.held_since_ns = 0
        self._held_ns = 0
        self.under_way = 0
        """The sum of what is under way in all queues."""
        self.under_way_limit = UNDER_WAY_MIN
        self.under_way_at_hold = 0
        """The value of `under_way` when this hold began; `agreed_at_hold` likewise."""
        self.agreed = 0
        """Messages that all queues have agreed on since the start."""
        self.agreed_before = 0
        """The value of `agreed` when the epoch began."""
        self.agreed_at_hold = 0
        self.ticks = 0
        """How often HELD_MS have passed since this hold began."""

    def note_under_way(self, pace: QueuePace, taken: int, under_way: int) -> None:
        """Note, before `note`, that of the messages that a replicated queue has `taken` in total so
        many are not agreed on."""
        if pace.epoch != self.epoch:
            pace.begin_epoch(self.epoch)
        self.agreed += taken - under_way - pace.agreed
        pace.agreed, pace.not_agreed = taken - under_way, under_way
        counted = under_way if pace.is_moving else 0
        if counted != pace.under_way:
            self.set_under_way(pace, counted)

    def note(
        self, pace: QueuePace, taken: int, dealt: int, waiting: int, waiting_bytes: int = 0
    ) -> None:
        """Note a queue's turn: `taken` and `dealt` are its totals of messages, `waiting` the ready
        messages for which it has consumers, and `waiting_bytes` their size."""
        if pace.epoch != self.epoch:
            pace.begin_epoch(self.epoch)
        more, less = taken - pace.taken, dealt - pace.dealt
        pace.taken, pace.dealt = taken, dealt
        self.dealt += less
        lag = min(max(pace.lag + more - less, 0), waiting) if pace.is_eager else 0
        lag_bytes = waiting_bytes * lag // waiting if lag else 0
        if lag != pace.lag or lag_bytes != pace.lag_bytes:
            self.set_lag(pace, lag, lag_bytes)

    def set_lag(self, pace: QueuePace, lag: int, lag_bytes: int) -> None:
        """Set the lag of one queue in messages, and in bytes; hold publishers, or release them, if
        it is time to."""
        self.lag += lag - pace.lag
        self.lag_bytes += lag_bytes - pace.lag_bytes
        pace.lag, pace.lag_bytes = lag, lag_bytes
        self.decide(pace)

    def set_under_way(self, pace: QueuePace, under_way: int) -> None:
        """Set how many messages of one queue are under way; hold publishers, or release them, if it
        is time to."""
        self.under_way += under_way - pace.under_way
        pace.under_way = under_way
        self.decide(pace)

    def note_other(self, node: int, lags: bool) -> None:
        """Note that the queues of another node lag, or do so no more; hold publishers, or release
        them, if it is time to."""
        if lags:
            self.others[node] = self.clock.now_ns() + OTHERS_NS
        else:
            self.others.pop(node, None)
        self.hold_or_let_go()

    def decide(self, pace: QueuePace) -> None:
        """Hold publishers, or release them, if it is time to, because the figures of `pace` have
        changed."""
        if pace.lag or pace.under_way:
            self.lagging[pace] = None
        else:
            self.lagging.pop(pace, None)
        factor = 2 if self.lags else 1
        lags = (
            self.lag * factor > self.limit
            or self.lag_bytes * factor > LAG_BYTES
            or self.under_way * factor > self.under_way_limit
        )
        if lags != self.lags:
            self.lags = lags
            for follower in self.followers:
                follower.post(LagChanged())
            self.hold_or_let_go()

    def hold_or_let_go(self) -> None:
        """Hold publishers, or release them, if it is time to."""
        if self.is_held and not (self.lags or self.others):
            self.let_go()
        elif not self.is_held and (self.lags or self.others):
            self.hold()

    def hold(self) -> None:
        """Let publishers have only a little of each HELD_MS from now on."""
        self.is_held = True
        self.held_count += 1
        self.held_since_ns = self.clock.now_ns()
        self.dealt_at_tick = self.dealt
        self.under_way_at_hold = self.under_way
        self.agreed_at_hold = self.agreed
        self.ticks = 0
        self.scheduler.hold(True)
        self.clock.call_after(HELD_MS, self, self.held_count)

    def let_go(self) -> None:
        """Let publishers have turns as usual, after all others."""
        self.is_held = False
        self._held_ns += self.clock.now_ns() - self.held_since_ns
        self.scheduler.hold(False)

    def held_ns(self, now_ns: int) -> int:
        """Return how long publishers have been held, in total, in nanoseconds."""
        return self._held_ns + (now_ns - self.held_since_ns if self.is_held else 0)

    def receive(self, message: object) -> None:
        """Give publishers a little time: HELD_MS have passed since this hold began or had its last
        tick."""
        if not self.is_held or message != self.held_count:
            return
        now_ns = self.clock.now_ns()
        self.look(now_ns)
        if self.others:
            self.others = {node: end for node, end in self.others.items() if end > now_ns}
            self.hold_or_let_go()
        if self.is_held:
            self.ticks += 1
            work = self.work_of_tick()
            if work:
                self.scheduler.take_some_in(work)
            self.dealt_at_tick = self.dealt
            self.clock.call_after(HELD_MS, self, self.held_count)

    def work_of_tick(self) -> int:
        """Return the units of work that publishers get at this tick of a hold."""
        sparingly = 1 if self.ticks % SPARING_TICKS == 0 else 0
        if not self.lags:
            return sparingly
        if self.under_way * 2 > self.under_way_limit:
            fallen = self.under_way_at_hold - self.under_way
            return HELD_WORK if fallen * 2 >= self.agreed - self.agreed_at_hold else sparingly
        is_idle = self.dealt == self.dealt_at_tick and not self.scheduler.ready
        return INTAKE_WORK if is_idle else HELD_WORK

    def look(self, now_ns: int) -> None:
        """Begin the next epoch when this one has lasted long enough: its deliveries determine how
        much lag is allowed, and silent queues do not lag any more."""
        passed_ns = now_ns - self.epoch_since_ns
        if passed_ns < EPOCH_NS:
            return
        rate = (self.dealt - self.dealt_before) * EPOCH_NS // passed_ns
        self.limit = max(LAG_MIN, rate * LAG_MS // 1000)
        rate = (self.agreed - self.agreed_before) * EPOCH_NS // passed_ns
        self.under_way_limit = max(UNDER_WAY_MIN, rate * UNDER_WAY_MS // 1000)
        self.dealt_before, self.agreed_before = self.dealt, self.agreed
        self.epoch_since_ns = now_ns
        self.epoch += 1
        for pace in [each for each in self.lagging if each.epoch < self.epoch - 1]:
            self.set_lag(pace, 0, 0)
            self.set_under_way(pace, 0)
