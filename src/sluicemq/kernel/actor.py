"""Actors: an inbox, turns bounded by work, and one hook at the end of a turn for batching.

Three things keep one actor from making the others wait:

    a turn     ends when its work is done or spent: what is left of the inbox waits for the next
    a piece    long work is an iterator (`Actor.begin`) that goes on from turn to turn
    a share    the actors of one connection take their turns within the turns of their Share

Beside that, `patient` actors, which bring work in, come last: they get turns worth INTAKE_WORK when
no other actor has anything to do, or when the others have had PATIENCE_WORK; more of both when many
of them wait.

A fault in a turn stays there: an exception never leaves the scheduler, which tells `witness` and
the actor. Each kind of actor decides what a fault in it means (`Actor.faulted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.containment import is_vital
from sluicemq.kernel.turn_groups import TurnGroupMember, TurnGroups

TURN_MAX: Final = 64
"""The most inbox messages that are handled in one turn."""

TURN_WORK: Final = 500
"""Units of work a turn may spend. A unit is what takes about a microsecond, as far as its spender
knows; a turn that has spent all of them ends with the message or piece that it is at."""

MESSAGE_WORK: Final = 5
"""Units of work that every message costs at least."""

TURN_OVERHEAD_WORK: Final = 20
"""Units of work that a turn costs besides its messages."""

SHARE_WORK: Final = 1000
"""Units of work that the members of one share may spend before everybody else has had a turn."""

PATIENCE_WORK: Final = 8000
"""Units of work after which patient actors get their turns, when others are never done."""

PATIENCE_WORK_EACH: Final = 128
"""The same for each patient actor that waits, where their sum is more..."""

PATIENCE_WORK_MAX: Final = 64_000
"""... but never more than this."""

INTAKE_WORK: Final = 1000
"""Units that patient actors may spend until it is the others' turn again. What they bring in
together is done together, which is cheaper than one by one; PATIENCE_WORK is enough to do it.
With those who bring little each time it is so only because more of them wait then."""

INTAKE_WORK_EACH: Final = 8
"""The same for each patient actor that waits, where their sum is more..."""

INTAKE_WORK_MAX: Final = 4000
"""... but never more than this."""

NEVER_NS: Final = 1 << 63
"""A time that never comes."""

NS_A_UNIT: Final = 1000
"""Nanoseconds that a unit of work is meant to take."""


def no_wake() -> None:
    """Wake nobody: the owner of this scheduler calls `run` by itself."""


def no_clock() -> int:
    """Return 0: there is no clock, and work counts by its units alone."""
    return 0


def no_witness(actor: Actor, error: Exception) -> None:
    """Tell nobody of the fault."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TurnLine:
    """Actors that wait for a turn, in order; an actor is in one line at most. Each has a reference
    to the one behind it, so that nothing is allocated where mostly one waits."""

    __slots__ = ("first", "last")

    def __init__(self) -> None:
        self.first: Actor | None = None
        self.last: Actor | None = None

    def __bool__(self) -> bool:
        return self.first is not None

    def __iter__(self) -> Iterator[Actor]:
        actor = self.first
        while actor is not None:
            yield actor
            actor = actor.next_in_line

    def append(self, actor: Actor) -> None:
        """Put an actor behind all others."""
        last = self.last
        if last is None:
            self.first = actor
        else:
            last.next_in_line = actor
        self.last = actor

    def appendleft(self, actor: Actor) -> None:
        """Put an actor before all others."""
        actor.next_in_line = self.first
        self.first = actor
        if self.last is None:
            self.last = actor

    def popleft(self) -> Actor:
        """Remove and return the first actor; there must be one."""
        actor = self.first
        assert actor is not None, "nobody waits"
        self.first = actor.next_in_line
        if self.first is None:
            self.last = None
        else:
            actor.next_in_line = None
        return actor

    def clear(self) -> None:
        """Let nobody wait any more."""
        while self.first is not None:
            self.popleft()


class Scheduler:
    """The node's own run queue: actors with something in their inbox, in order of arrival. Each
    turn runs to completion, and nothing else runs actors."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = no_wake
        """Called when the queue goes from empty to non-empty. The World sets it, and calls `run`
        soon after (host: `loop.call_soon`; sim: an event)."""
        self.now_ns: Callable[[], int] = no_clock
        """Gives nanoseconds of a clock that shows what turns really take, set by the World where
        there is one. Shares and patient actors then go by it where it shows more than their units
        of work do."""
        self.witness: Callable[[Actor, Exception], None] = no_witness
        """Called when a turn of an actor has ended by an error; set by the node, for the log and
        the counters."""
        self.broke: Callable[[Actor, Exception], None] = no_witness
        """Called when an error cannot be contained and the process has to end; set by the node."""
        self.ready = TurnLine()
        self.patient: TurnGroups[Actor] = TurnGroups()
        """The actors that bring work in; they have their turns behind those that do it."""
        self.awake = False
        self.turn_max = TURN_MAX
        self.turn_work = TURN_WORK
        self.share_work = SHARE_WORK
        self.work = 0
        """Units of work that the turn under way may still spend; see `Actor.spend`."""
        self.spent = 0
        """Units of work that were spent since patient actors last had their turns."""
        self.looked_ns = 0
        """The time that `now_ns` returned last; it is asked after each turn."""
        self.intake_at_ns = 0
        """The time, by `now_ns`, at which patient actors last had their turns."""
        self.intake = 0
        """Units of work that patient actors may spend before it is the others' turn again."""
        self.is_held = False
        """Do patient actors wait until `take_some_in`, even when nobody else has anything to do?"""
        self.is_broken = False
        """True when a fault has hit what all share: nobody gets a turn any more."""

    def add(self, actor: Actor) -> None:
        """Queue an actor that has something to do. Only `Actor.schedule` calls this."""
        if self.is_broken:
            return
        if actor.comes_last:
            self.patient.append(actor)
        else:
            self.ready.append(actor)
        if not self.awake:
            self.awake = True
            self.wake()

    def run(self, turns_max: int, until_ns: int = NEVER_NS) -> bool:
        """Run at most `turns_max` turns, where one turn of a share counts as one, until `now_ns`
        has reached `until_ns`; shares check that after each turn of a member. Returns True when
        there is work left that may be done now."""
        self.looked_ns = self.now_ns()
        return self.run_from_now(turns_max, until_ns)

    def run_from_now(self, turns_max: int, until_ns: int) -> bool:
        """Do as `run` does; the caller has just set `looked_ns`."""
        ready = self.ready
        patient = self.patient
        now_ns = self.now_ns
        while turns_max and self.looked_ns < until_ns:
            is_patient = patient.count > 0 and self.is_intake_due()
            if is_patient:
                actor = patient.popleft()
            elif ready.first is not None:
                actor = ready.popleft()
                self.intake = 0
            else:
                break
            try:
                actor.run_turn()
            except Exception as error:
                self.contain(actor, error)
            self.looked_ns = now_ns()
            if is_patient:
                self.intake -= self.turn_work - self.work
                self.spent = 0
                self.intake_at_ns = self.looked_ns
            turns_max -= 1
        self.awake = ready.first is not None or (
            patient.count > 0 and (self.intake > 0 or not self.is_held)
        )
        return self.awake

    def is_intake_due(self) -> bool:
        """Tell whether patient actors may have turns now, and set how much work they get."""
        if self.intake > 0:
            return True
        if self.is_held or (self.ready.first is not None and not self.have_had_enough()):
            return False
        self.intake = min(max(INTAKE_WORK, self.patient.count * INTAKE_WORK_EACH), INTAKE_WORK_MAX)
        return True

    def have_had_enough(self) -> bool:
        """Tell whether the other actors have had the work that they get between two intakes of
        patient actors."""
        wanted = max(PATIENCE_WORK, self.patient.count * PATIENCE_WORK_EACH)
        passed = max(self.spent, (self.looked_ns - self.intake_at_ns) // NS_A_UNIT)
        return passed >= min(wanted, PATIENCE_WORK_MAX)

    def take_some_in(self, work: int) -> None:
        """Let patient actors have turns worth `work` units now, even while they are held."""
        self.intake = work
        if self.patient.count and not self.awake:
            self.awake = True
            self.wake()

    def hold(self, is_held: bool) -> None:
        """While `is_held`, give patient actors turns only by `take_some_in`; otherwise give them
        turns as usual."""
        self.is_held = is_held
        if not is_held and self.patient.count and not self.awake:
            self.awake = True
            self.wake()

    def contain(self, actor: Actor, error: Exception) -> None:
        """Confine a fault that has ended a turn of the actor."""
        actor.underway = None
        try:
            self.witness(actor, error)
            if is_vital(error, actor):
                self.give_up(actor, error)
            else:
                actor.faulted(error)
        except Exception as another:
            self.witness(actor, another)
            self.give_up(actor, another)
        actor.faulted_message = None
        if actor.inbox:
            actor.schedule()

    def give_up(self, actor: Actor, error: Exception) -> None:
        """End the process: no turn is safe any more."""
        self.is_broken = True
        self.ready.clear()
        self.patient.clear()
        self.broke(actor, error)

    @property
    def is_busy(self) -> bool:
        """Tell whether any actor waits for a turn."""
        return bool(self.ready or self.patient)


@mypyc_attr(allow_interpreted_subclasses=True)
class Actor(TurnGroupMember):
    """Base of everything that has an inbox. Only the scheduler, or a share, calls `run_turn`."""

    is_common: ClassVar[bool] = False
    """Do all others post to it, so that it goes on until its inbox is empty?"""
    is_patient: ClassVar[bool] = False
    """Does it bring work in, so that it waits for those who do the work that is there?"""
    is_vital: ClassVar[bool] = True
    """Does the node end by a fault while one of its methods is under way, in anybody's turn?"""

    def __init__(self, scheduler: Scheduler, share: Share | None = None) -> None:
        self.scheduler = scheduler
        self.run_queue: Scheduler | Share = scheduler if share is None else share
        """Who gives it turns: its share, if it has one."""
        self.inbox: list[object] = []
        self.scheduled = False
        self.comes_last = self.is_patient
        """The same as `is_patient`, where it is found at once."""
        self.next_in_line: Actor | None = None
        """The actor that has its turn after this one, while both wait; see `TurnLine`."""
        self.underway: Iterator[int] | None = None
        """Long work that goes on in the next turn, before anything else in the inbox."""
        self.faulted_message: object = None
        """The message at which the last fault came; None: it came elsewhere, or there was none."""
        self.stand_in: StandIn | None = None
        """Who has its turns since it cannot have them itself any more; None: it can."""

    def post(self, message: object) -> None:
        """Put `message` into the inbox; it is handled in a later turn, in order."""
        self.inbox.append(message)
        if not self.scheduled:
            self.scheduled = True
            self.run_queue.add(self)

    def schedule(self) -> None:
        """Ask for a turn, even with an empty inbox."""
        if not self.scheduled:
            self.scheduled = True
            self.run_queue.add(self)

    def spend(self, work: int) -> None:
        """Count `work` units beyond MESSAGE_WORK for what is being done. When the turn has none
        left, it ends after the current message or piece."""
        self.scheduler.work -= work

    def schedule_rest(self) -> None:
        """Ask for another turn for what this one leaves: behind all other actors or, for an actor
        to which all others post, before them. They would otherwise post more in each round than one
        turn can handle."""
        if self.is_common and not self.scheduled:
            self.scheduled = True
            self.scheduler.ready.appendleft(self)
        else:
            self.schedule()

    def begin(self, pieces: Iterator[int]) -> None:
        """Do long work in pieces: each step of `pieces` does one and yields the units that it cost.
        As many as the turn allows are done now, the others in the next turns; messages in the inbox
        wait until the last one. An actor does one such work at a time."""
        assert self.underway is None, f"{type(self).__name__} has long work under way already"
        self.underway = pieces
        self.go_on()
        if self.underway is not None:
            self.schedule()

    def go_on(self) -> None:
        """Continue the long work until it is done or the turn's work is spent."""
        assert self.underway is not None
        scheduler = self.scheduler
        for work in self.underway:
            scheduler.work -= work
            if scheduler.work <= 0:
                return
        self.underway = None

    def run_turn(self) -> None:
        """Handle the messages that are in the inbox now, as far as the turn's work goes, then call
        `turn_ended`."""
        self.scheduled = False
        if self.stand_in is not None:
            self.stand_in.take_turn(self)
            return
        scheduler = self.scheduler
        turn_work = scheduler.turn_work
        scheduler.work = turn_work - TURN_OVERHEAD_WORK
        if self.underway is not None:
            self.go_on()
        if self.underway is None:
            inbox = self.inbox
            if len(inbox) == 1:
                message = inbox[0]
                inbox.clear()
                self.handle_only(message)
            elif inbox:
                self.handle_inbox(self.receive)
        if self.inbox or self.underway is not None:
            self.schedule_rest()
        if self.has_own_turns():  # otherwise it has come to an end in this turn
            self.turn_ended()
        scheduler.spent += turn_work - scheduler.work

    def has_own_turns(self) -> bool:
        """Tell whether nobody has its turns in its place."""
        return self.stand_in is None

    def handle_only(self, message: object) -> None:
        """Handle a message that was alone in the inbox."""
        try:
            self.receive(message)
        except Exception:
            self.faulted_message = message
            raise
        self.scheduler.work -= MESSAGE_WORK

    def handle_inbox(self, receive: Callable[[object], None]) -> None:
        """Have `receive` handle the messages that were in the inbox when the turn began. The others
        stay there, in order, when the turn's work is spent, TURN_MAX messages are handled or long
        work has begun."""
        batch = self.inbox
        scheduler = self.scheduler
        turn_max = scheduler.turn_max
        if len(batch) <= turn_max:
            self.inbox = []
        else:  # messages that the turn cannot get to stay in place: there may be a million
            batch = batch[:turn_max]
            del self.inbox[:turn_max]
        done = 0
        try:
            for message in batch:
                receive(message)
                done += 1
                scheduler.work -= MESSAGE_WORK
                if scheduler.work <= 0 or done == turn_max or self.underway is not None:
                    break
        except Exception:
            self.faulted_message = batch[done]
            self.inbox[:0] = batch[done + 1 :]
            raise
        if done < len(batch):
            self.inbox[:0] = batch[done:]

    def receive(self, message: object) -> None:
        """Handle one message: run to completion, or leave the rest to `begin`."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """End a turn: the only place where anything is batched or flushed."""

    def go_deaf(self) -> None:
        """Drop all further messages, because the actor has come to its end."""
        self.stand_in = NOBODY_HEARS
        self.inbox.clear()

    def faulted(self, error: Exception) -> None:
        """Decide what a fault in a turn of this actor means. The others go on; the rest of the
        inbox, without the `faulted_message`, is handled in the next turn unless the actor goes deaf
        here. Unless this is overridden, the process ends."""
        self.scheduler.give_up(self, error)


@mypyc_attr(allow_interpreted_subclasses=True)
class StandIn:
    """Takes the turns of an actor that cannot take them itself any more, and handles its messages.
    It has nothing to do at the end of a turn."""

    def take_turn(self, actor: Actor) -> None:
        """Handle the messages that are in the actor's inbox now, as far as the turn's work goes."""
        scheduler = actor.scheduler
        turn_work = scheduler.turn_work
        scheduler.work = turn_work - TURN_OVERHEAD_WORK
        actor.handle_inbox(self.receive)
        if actor.inbox:
            actor.schedule_rest()
        scheduler.spent += turn_work - scheduler.work

    def receive(self, message: object) -> None:
        """Handle a message for the actor, in its place."""
        raise NotImplementedError


class Nobody(StandIn):
    """Stands in for an actor that has come to its end, and drops its messages."""

    def take_turn(self, actor: Actor) -> None:
        actor.inbox.clear()


NOBODY_HEARS: Final = Nobody()


class Share(Actor):
    """The actors of one owner, which together get as many turns as a single actor: the members'
    turns are part of the share's own. So a client with two thousand busy channels gets no more than
    one with a single channel."""

    is_vital = False

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.members = TurnLine()
        """The members that wait for a turn."""

    def add(self, actor: Actor) -> None:
        """Queue a member that has something to do. Only `Actor.schedule` calls this."""
        self.members.append(actor)
        if not self.scheduled:
            self.schedule()

    def run_turn(self) -> None:
        """Give members turns in order of arrival until SHARE_WORK is spent, including those that
        are queued meanwhile."""
        members = self.members
        scheduler = self.scheduler
        turn_work = scheduler.turn_work
        left = scheduler.share_work
        end_ns = scheduler.looked_ns + left * NS_A_UNIT
        while True:
            member = members.popleft()
            try:
                member.run_turn()
            except Exception as error:
                scheduler.contain(member, error)
                if scheduler.is_broken:
                    members.clear()
            left -= turn_work - scheduler.work
            if members.first is None:
                self.scheduled = False
                return
            scheduler.looked_ns = scheduler.now_ns()
            if left <= 0 or scheduler.looked_ns > end_ns:
                scheduler.add(self)
                return
