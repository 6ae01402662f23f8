"""A member of a mirrored queue's group, and the queue that it serves while it is master: positions
without bodies, which are published, delivered, requeued and removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sluicemq.chain.queue.quorum.member_log import joined_pieces, pieces_in
from sluicemq.model.traits import message_traits
from sluicemq.queues.mirrored.command_codec import decode_entry, encode_entry
from sluicemq.queues.mirrored.commands import MirrorEffect, RemoveMessages, WriteMessages
from sluicemq.queues.mirrored.group_standing import may_serve, standing_of
from sluicemq.queues.mirrored.mastership import Mastership
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.queues.mirrored.snapshot import digest_of
from sluicemq.sim.raft.host import SETTINGS, SimMember
from sluicemq.sim.raft.mirror_message import MirrorMessage
from sluicemq.sim.raft.register import Register
from sluicemq.storage.entries import Run

if TYPE_CHECKING:
    from sluicemq.sim.raft.mirrored_checkers import MirroredCheckers

BOUNDS = MirrorBounds(
    gate_bytes=900,
    close_bytes=500,
    behind_bytes=2500,
    stalled_ms=150,
    rejoin_ms=10,
    rejoin_max_ms=80,
    mark_ahead=6,
)
"""So small that every bound is met."""
TRAITS = message_traits(b"\1e\1k", 1, True)


class MirrorRegister(Register):
    """A mirror, in place of the registers."""

    def __init__(self) -> None:
        super().__init__()
        self.mirror = Mirror()

    def apply(self, data: bytes, index: int) -> None:
        effects: list[MirrorEffect] = []
        self.mirror.entered(index, 0)
        for command in decode_entry(data):
            self.mirror.apply(command, effects)
        self.digest = self.digested()

    def digested(self) -> int:
        """Return what is equal for equal mirrors."""
        return int.from_bytes(digest_of(self.mirror), "little")

    def content(self) -> bytes:
        return joined_pieces([*self.mirror.snapshot()])

    def restore(self, content: bytes) -> None:
        if content:
            self.mirror.restore(pieces_in(content))
            self.digest = self.digested()


class Published(NamedTuple):
    """Messages of a client that wants to hear when they are safe."""

    positions: range
    done: Callable[[], None]


class SimMaster:
    """The queue of one mastership. It applies what it is asked at once."""

    def __init__(self, member: MirroredMember) -> None:
        self.member = member
        self.term = member.raft.member.term
        mirror = member.register.mirror
        self.mastership: Mastership[Published] = Mastership(
            mirror, member.name, BOUNDS, int(member.events.now_ms)
        )
        self.next = mirror.next_position(0)
        self.ready: dict[int, bool] = {}
        """By position, those that may be delivered: whether they come again."""
        self.messages: dict[int, MirrorMessage] = {}
        """By position."""
        for run in mirror.runs():
            for position in (each for part in run.positions for each in part):
                self.ready[position] = position < mirror.delivered(position)
                term = member.checkers.term_of(run.index)
                self.messages[position] = MirrorMessage(position, run.index, term)
        self.unwritten: list[Published] = []
        """In no entry yet."""

    def publish(self, count: int, done: Callable[[], None]) -> None:
        """Take so many messages, and call `done` when they are safe."""
        positions = range(self.next, self.next + count)
        self.next = positions.stop
        contents = [b"%0*d" % (each % 20 + 5, each) for each in positions]
        sizes = [*map(len, contents)]
        run = Run(0, positions.start, 1, count, TRAITS, False, contents, sizes)
        published = Published(positions, done)
        self.unwritten.append(published)
        self.mastership.gather(WriteMessages(run), published)

    def written(self, index: int) -> None:
        """What was published is the entry at this index: it may be delivered."""
        for published in self.unwritten:
            for position in published.positions:
                self.messages[position] = MirrorMessage(position, index, self.term)
                self.ready[position] = False
        self.unwritten = []

    def deliver(self) -> MirrorMessage | None:
        """Deliver the first message that is ready, if that may be done now."""
        first = min(self.ready, default=None)
        if first is None or not self.mastership.marks.may_deliver(first):
            return None
        message = self.messages[first]
        self.member.checkers.delivers(self.term, message, self.ready.pop(first))
        return message

    def requeue(self, message: MirrorMessage) -> None:
        self.ready[message.position] = True

    def remove(self, message: MirrorMessage) -> None:
        """Let go of a message for good."""
        self.member.checkers.removes(message)
        position = message.position
        self.mastership.gather(RemoveMessages((range(position, position + 1),)))


class MirroredMember(SimMember):
    """A member that may be a mirror, or a witness."""

    register_type = MirrorRegister
    settings = replace(SETTINGS, piece_bytes=160)
    register: MirrorRegister
    checkers: MirroredCheckers
    master: SimMaster | None

    def start(self) -> None:
        self.master = None
        super().start()

    @property
    def mirrors(self) -> set[int]:
        """Return everybody but the witnesses."""
        return {*self.raft.configuration.members} - self.checkers.witnesses

    def pump(self) -> None:
        super().pump()
        while self.is_up and self._look():
            super().pump()

    def _look(self) -> bool:
        """Begin to serve, or end; have an entry agreed on. Returns whether Raft has got something
        to do."""
        raft = self.raft
        if self.master is not None and not (raft.is_leader and self.is_of_this_term(self.master)):
            self.master = None
        if self.master is None:
            if not may_serve(raft):
                return False
            if self.name in self.checkers.witnesses:
                return self._hand_over()
            self.master = SimMaster(self)
            self.checkers.serves(self.name, self.master.term, {*self.master.messages.values()})
        self._confirm(self.master)
        return self._propose(self.master)

    def is_of_this_term(self, master: SimMaster) -> bool:
        """Tell whether that mastership is not over."""
        return master.term == self.raft.member.term

    def _hand_over(self) -> bool:
        """A witness serves nobody."""
        raft = self.raft
        heir = raft.best_heir(self.mirrors)
        if raft.is_handing_over or heir not in self.mirrors:
            return False
        self.checkers.happened["handed over"] += 1
        raft.transfer(heir)
        return True

    def _confirm(self, master: SimMaster) -> None:
        mastership = master.mastership
        standing = standing_of(self.raft)
        mastership.look(standing, int(self.events.now_ms), self.mirrors)
        self.checkers.holds_up(self.applied, mastership.holding_up)
        for published in mastership.confirmed(standing):
            messages = [master.messages[position] for position in published.positions]
            self.checkers.confirms(self.applied, messages)
            published.done()

    def _propose(self, master: SimMaster) -> bool:
        mastership = master.mastership
        if not self.raft.takes_proposals:
            return False
        commands = mastership.take_entry()
        if not commands:
            return False
        data = encode_entry(commands)
        index = self.raft.propose(data)
        assert index, "a leader that takes proposals has taken one"
        mastership.proposed(index, len(data))
        master.written(index)
        return True
