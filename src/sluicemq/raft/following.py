"""What a member does with a leader's word: it appends, commits, takes in snapshots, falls quiet."""

from __future__ import annotations

from sluicemq.raft.entry import LogSnapshot
from sluicemq.raft.member import RaftMember
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    BeatAnswer,
    LeaderBeat,
    PieceAnswer,
    SnapshotPiece,
)


class Following:
    """A follower's half of replication. The leader of the term is known to the member by now."""

    def __init__(self, member: RaftMember) -> None:
        self.member = member
        self.is_quiet = False
        """No heartbeats are missed, for the leader has said that none will come."""
        self.round = 0
        """The newest heartbeat of this term's leader."""
        self.snapshot: LogSnapshot | None = None
        """The one that is coming in."""
        self.received = 0
        """So many of its bytes are here."""
        self.pieces: list[SnapshotPiece] = []
        """To be written."""
        self.install: LogSnapshot | None = None
        """Whole, and to be put in the log's place."""

    def begin(self) -> None:
        """A term begins: what was heard before is another leader's."""
        self.round = 0
        self.forget_snapshot()

    def append(self, message: AppendEntries) -> None:
        """Take over entries, if the one before them is here. One that comes late and says nothing
        new wakes nobody."""
        member = self.member
        log = member.log
        was_last = log.last_index
        if not log.matches(message.previous_index, message.previous_term):
            hint = log.agreement_before(message.previous_index, message.previous_term)
            refusal = AppendAnswer(
                member.name,
                message.sender,
                member.term,
                match=0,
                refused=message.previous_index,
                hint_index=hint,
                hint_term=log.term_at(hint),
            )
            member.send(refusal)
            self.is_quiet = False
            return
        match = max(message.previous_index, log.merge(message.entries, member.next_number))
        log.commit_to(min(message.commit, match))
        self.is_quiet = self.is_quiet and log.last_index == was_last
        member.acknowledge(message.sender, match)

    def heartbeat(self, message: LeaderBeat) -> None:
        """The leader is there, and says what is committed of that which it knows to be here."""
        member = self.member
        log = member.log
        log.commit_to(message.commit)
        if message.round > self.round:
            self.round = message.round
            self.is_quiet = (
                message.quiet_at != 0
                and message.quiet_at == log.last_index == log.commit
                and not member.lost.intersection(log.configuration.members)
            )
        member.send(
            BeatAnswer(member.name, message.sender, member.term, message.round, self.is_quiet)
        )

    def piece(self, message: SnapshotPiece) -> None:
        """Take in a part of a snapshot. It is whole with the last one, and replaces the log, unless
        the log has what the snapshot stands for: what follows there may have been acknowledged."""
        member = self.member
        snapshot = message.snapshot
        if member.log.matches(snapshot.index, snapshot.term):
            self.forget_snapshot()
            member.log.commit_to(snapshot.index)
            member.acknowledge(message.sender, snapshot.index)
            return
        self.is_quiet = False
        if self.install is not None:
            return
        assert snapshot.index > member.log.commit, "what is committed is in the leader's log"
        assert len(message.content) == message.size, "the sender's host puts the content in"
        if self.snapshot != snapshot and message.offset == 0:
            self.forget_snapshot()
            self.snapshot = snapshot
        if self.snapshot == snapshot and message.offset == self.received:
            self.pieces.append(message)
            self.received += message.size
            if message.is_last:
                self.switch(message.sender, snapshot)
                return
        received = self.received if self.snapshot == snapshot else 0
        answer = PieceAnswer(member.name, message.sender, member.term, snapshot.index, received)
        member.send(answer, member.next_number if self.pieces else member.number)

    def switch(self, leader: int, snapshot: LogSnapshot) -> None:
        """The snapshot is whole: it takes the place of the log."""
        member = self.member
        self.snapshot = None
        self.received = 0
        self.install = snapshot
        member.log.install(snapshot, member.next_number)
        member.withdraw_acknowledgements()
        member.acknowledge(leader, snapshot.index)

    def forget_snapshot(self) -> None:
        """What has come in of one is of no use; whoever sends it begins anew. A whole one stays."""
        self.snapshot = None
        self.received = 0
        if self.install is None:
            self.pieces = []

    def take_pieces(self) -> tuple[list[SnapshotPiece], LogSnapshot | None]:
        """What the host has to write of snapshots, and the one that is whole now."""
        taken = self.pieces, self.install
        self.pieces = []
        self.install = None
        return taken
