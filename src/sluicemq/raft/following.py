"""How a follower handles its leader's messages: it appends, commits, takes in snapshots, and falls
quiet.
"""

from __future__ import annotations

from sluicemq.raft.member import RaftMember
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    BeatAnswer,
    CommitNotice,
    LeaderBeat,
    LivePiece,
    PieceAnswer,
    SnapshotPiece,
)
from sluicemq.raft.snapshot import LogSnapshot


class Following:
    """A follower's half of replication. The member already knows the leader of the term."""

    def __init__(self, member: RaftMember) -> None:
        self.member = member
        self.is_quiet = False
        """The leader has announced that no heartbeats will come, so none are missed."""
        self.round = 0
        """The newest heartbeat of this term's leader."""
        self.snapshot: LogSnapshot | None = None
        """The incoming snapshot."""
        self.received = 0
        """So many bytes of it are here."""
        self.pieces: list[SnapshotPiece | LivePiece] = []
        """Pieces to be written."""
        self.live = 0
        """Of the entries that the snapshot at `live_base` needs, those up to here are here; so are
        those that later snapshots need of them. They are committed, so they outlive leaders."""
        self.live_base = 0
        self.install: LogSnapshot | None = None
        """A complete snapshot, which will replace the log."""

    def begin(self) -> None:
        """Begin a term: what was heard before came from another leader."""
        self.round = 0
        self.forget_snapshot()

    def append(self, message: AppendEntries) -> None:
        """Append entries, if the log has the one before them. A late message with nothing new does
        not end the quiet."""
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

    def hear_commit(self, message: CommitNotice) -> None:
        """Commit up to the leader's index, which this log has."""
        self.member.log.commit_to(message.commit)

    def heartbeat(self, message: LeaderBeat) -> None:
        """The leader is there, and names the committed entries that it knows to be in this log."""
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
        """Take in a piece of a snapshot's content, if the entries that it needs are here. With the
        last piece the snapshot is complete, and replaces the log."""
        snapshot = message.snapshot
        if not self.is_wanted(message.sender, snapshot):
            return
        assert len(message.content) == message.size, "the sender's host puts the content in"
        if self.has_of(snapshot) < snapshot.live_upto:
            self.answer_piece(message.sender, snapshot)
            return
        if self.snapshot != snapshot and message.offset == 0:
            self.forget_snapshot()
            self.snapshot = snapshot
        if self.snapshot == snapshot and message.offset == self.received:
            self.pieces.append(message)
            self.received += message.size
            if message.is_last:
                self.switch(message.sender, snapshot)
                return
        self.answer_piece(message.sender, snapshot)

    def live_piece(self, message: LivePiece) -> None:
        """Take in some of the entries that a snapshot needs. Those taken for a later snapshot may
        have gaps for an earlier one, so they do not serve it."""
        snapshot = message.snapshot
        if not self.is_wanted(message.sender, snapshot):
            return
        assert message.after < message.upto, "the sender's host says how far the entries go"
        if message.after == self.has_of(snapshot):
            self.pieces.append(message)
            self.live = message.upto
            self.live_base = snapshot.index
        self.answer_piece(message.sender, snapshot)

    def has_of(self, snapshot: LogSnapshot) -> int:
        """The index up to which all entries that the snapshot needs are here."""
        return self.live if snapshot.index >= self.live_base else 0

    def is_wanted(self, leader: int, snapshot: LogSnapshot) -> bool:
        """Whether a snapshot is needed and not complete yet. It is not needed if the log has its
        last entry: what follows in the log may have been acknowledged."""
        member = self.member
        if member.log.matches(snapshot.index, snapshot.term):
            self.forget_snapshot()
            member.log.commit_to(snapshot.index)
            member.acknowledge(leader, snapshot.index)
            return False
        self.is_quiet = False
        assert snapshot.index > member.log.commit, "what is committed is in the leader's log"
        return self.install is None

    def answer_piece(self, leader: int, snapshot: LogSnapshot) -> None:
        """Tell how much of a snapshot is here, once that is written."""
        member = self.member
        received = self.received if self.snapshot == snapshot else 0
        live = self.has_of(snapshot)
        answer = PieceAnswer(member.name, leader, member.term, snapshot.index, received, live)
        member.send(answer, member.next_number if self.pieces else member.number)

    def switch(self, leader: int, snapshot: LogSnapshot) -> None:
        """Replace the log by the snapshot, which is complete."""
        member = self.member
        self.snapshot = None
        self.received = 0
        self.install = snapshot
        self.live = self.live_base = 0
        member.log.install(snapshot, member.next_number)
        member.withdraw_acknowledgements()
        member.acknowledge(leader, snapshot.index)

    def forget_snapshot(self) -> None:
        """Drop an incomplete snapshot; its sender begins anew. A complete one stays."""
        self.snapshot = None
        self.received = 0
        if self.install is None:
            self.pieces = [each for each in self.pieces if isinstance(each, LivePiece)]

    def take_pieces(self) -> tuple[list[SnapshotPiece | LivePiece], LogSnapshot | None]:
        """The parts of snapshots that the host has to write, and the snapshot that is
        complete now.
        """
        taken = self.pieces, self.install
        self.pieces = []
        self.install = None
        return taken
