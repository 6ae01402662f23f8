"""A group whose every step is a command: messages wait until they are delivered, writes are durable
at once unless somebody holds a disk."""

from __future__ import annotations

from collections.abc import Callable

from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import LogEntry, noop
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    BeatAnswer,
    CommitNotice,
    LeaderBeat,
    LivePiece,
    PieceAnswer,
    RaftMessage,
    SnapshotPiece,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from sluicemq.raft.raft import Raft
from sluicemq.raft.ready import RaftReady
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.sim.raft.disk import Platter, RaftDisk, TakenSnapshot

SETTINGS = RaftSettings(
    election_ticks=4,
    stagger_ticks=2,
    heartbeat_ticks=1,
    quiet_ticks=3,
    append_entries=3,
    append_bytes=1000,
    in_flight_entries=6,
    in_flight_bytes=1000,
    uncommitted_entries=8,
    uncommitted_bytes=2000,
    late_entries=2,
    late_bytes=1000,
    late_ticks=3,
    piece_bytes=4,
    promote_lag_entries=2,
)

LIVE_ENTRIES = 2
"""So many needed entries are in a piece."""

KINDS: dict[type[RaftMessage], str] = {
    VoteRequest: "vote?",
    VoteAnswer: "vote",
    AppendEntries: "append",
    AppendAnswer: "has",
    LeaderBeat: "heartbeat",
    CommitNotice: "notice",
    BeatAnswer: "heard",
    SnapshotPiece: "piece",
    LivePiece: "live",
    PieceAnswer: "got",
    TakeOver: "takeover",
}


def place(index: int, term: int) -> str:
    return f"{index}/{term}"


def words(message: RaftMessage) -> str:
    """A message in words. An entry is shown as its index and its term."""
    if isinstance(message, VoteRequest):
        kind = "pre-vote" if message.is_pre else "vote"
        forced = ", told to take over" if message.is_forced else ""
        last = place(message.last_index, message.last_term)
        return f"{kind}? for term {message.term}, log ends at {last}{forced}"
    if isinstance(message, VoteAnswer):
        kind = "pre-vote" if message.is_pre else "vote"
        return f"{kind} {'granted' if message.is_granted else 'refused'}, term {message.term}"
    if isinstance(message, AppendEntries):
        entries = " ".join(place(entry.index, entry.term) for entry in message.entries) or "nothing"
        after = place(message.previous_index, message.previous_term)
        return f"append of term {message.term}: after {after} {entries}, commit {message.commit}"
    if isinstance(message, AppendAnswer):
        if message.refused:
            hint = place(message.hint_index, message.hint_term)
            return f"refuses what follows {message.refused}, equal at {hint} at best"
        return f"has {message.match}" if message.match else f"is in term {message.term}"
    if isinstance(message, LeaderBeat):
        quiet = f", quiet at {message.quiet_at}" if message.quiet_at else ""
        return f"heartbeat {message.round} of term {message.term}, commit {message.commit}{quiet}"
    if isinstance(message, CommitNotice):
        return f"commit {message.commit}, term {message.term}"
    if isinstance(message, BeatAnswer):
        return f"heard {message.round}{', is quiet' if message.is_quiet else ''}"
    if isinstance(message, SnapshotPiece):
        end = message.offset + message.size
        return f"piece of snapshot {message.snapshot.index}: bytes {message.offset} to {end}"
    if isinstance(message, LivePiece):
        entries = " ".join(place(entry.index, entry.term) for entry in message.entries) or "nothing"
        return f"live of snapshot {message.snapshot.index}: {entries}, all up to {message.upto}"
    if isinstance(message, PieceAnswer):
        live = f", and what it needs up to {message.live}" if message.live else ""
        return f"got {message.received} bytes of snapshot {message.snapshot_index}{live}"
    return f"take over, term {message.term}"


class Seat:
    """A member of the group, with its disk. `start` begins with what that has."""

    def __init__(self, name: int, platter: Platter, group: Group) -> None:
        self.name = name
        self.group = group
        self.disk = RaftDisk()
        self.disk.platter = platter
        self.is_held = False
        self.is_up = False
        self.version = 1

    def start(self, is_amnesiac: bool = False) -> None:
        self.raft = Raft(
            self.name,
            self.disk.platter.durable(),
            SETTINGS,
            self.version,
            lambda _: 0,
            is_amnesiac=is_amnesiac,
        )
        self.is_up = True
        self.contents = {self.disk.platter.snapshot: self.disk.platter.content}
        self.incoming = b""
        self.shown = self.standing()

    def standing(self) -> tuple[str, int, str]:
        member = self.raft.member
        role = member.role
        words = {
            "leader": f"leads in term {member.term}",
            "candidate": f"asks for votes in term {member.term}",
            "pre-candidate": f"asks for pre-votes in term {member.term}",
        }
        following = f"follows {member.leader or 'nobody'} in term {member.term}"
        return words.get(role, following), member.log.commit, str(member.log.configuration)

    def note(self) -> None:
        """Show what has become of this member since it was shown last."""
        role, commit, members = self.standing()
        was_role, was_commit, was_members = self.shown
        self.shown = (role, commit, members)
        if role != was_role:
            self.group.say(f"  {self.name} {role}")
        if members != was_members:
            self.group.say(f"  {self.name} has members {members}")
        if commit > was_commit:
            self.group.say(f"  {self.name} commits {commit}")

    def pump(self) -> None:
        """Do what is to be done, until there is nothing."""
        while True:
            ready = self.raft.ready()
            self.carry_out(ready)
            if self.is_held or not self.disk.begin_sync():
                return
            self.end_sync()

    def carry_out(self, ready: RaftReady) -> None:
        if ready.truncate_from:
            self.group.say(f"  {self.name} truncates from {ready.truncate_from}")
        self.note()
        if ready.number:
            self.disk.write(ready)
            if self.is_held:
                entries = [place(entry.index, entry.term) for entry in ready.entries]
                parts = [f"term {ready.state[0]} vote {ready.state[1]}"] if ready.state else []
                self.group.say(
                    f"  {self.name} writes {', '.join(parts + entries)}: append {ready.number}"
                )
        for piece in ready.pieces:
            if isinstance(piece, SnapshotPiece):
                self.incoming = self.incoming[: piece.offset] + piece.content
        if ready.install is not None:
            self.contents[ready.install] = self.incoming
            self.group.say(f"  {self.name} installs snapshot {ready.install.index}")
        for message in ready.messages:
            if isinstance(message, SnapshotPiece):
                content = self.contents[message.snapshot]
                message.content = content[message.offset : message.offset + message.size]
            elif isinstance(message, LivePiece):
                live = sorted(self.disk.platter.live)
                found = [index for index in live if index > message.after][:LIVE_ENTRIES]
                message.entries = [self.disk.platter.live[index] for index in found]
                message.upto = found[-1]
            self.group.mailbox.append(message)
        for read in ready.reads:
            self.group.say(
                f"  {self.name} answers read {read.context} with what is at {read.index}"
            )

    def end_sync(self) -> None:
        number, taken = self.disk.end_sync()
        self.raft.synced(number)
        for snapshot in taken:
            self.raft.compact(snapshot)
        pinned = {*self.raft.pinned()}
        self.contents = {one: what for one, what in self.contents.items() if one in pinned}

    def sync(self, number: int) -> None:
        """Have the held appends up to that number durable; 0: all that there are."""
        count = sum(of <= number or not number for of, _ in self.disk.waiting)
        self.disk.syncing = count
        if count:
            self.end_sync()
        self.pump()

    def snapshot(self, index: int, size: int, live: list[int]) -> None:
        content = bytes(size)
        snapshot = self.raft.snapshot_at(index, size, max(live, default=0))
        self.contents[snapshot] = content
        taken = TakenSnapshot(snapshot, content, frozenset(live))
        self.disk.waiting.append((self.raft.member.number, taken))
        self.pump()

    def line(self) -> str:
        """The member in a line: its log as terms, what is not durable in brackets, `|` behind what
        is committed."""
        if not self.is_up:
            return f"{self.name}  down"
        member = self.raft.member
        log = member.log
        live = "".join(f"+{index}" for index in sorted(self.disk.platter.live))
        cells = [f"[{log.snapshot.index}{live}]"] if log.snapshot.index else []
        for entry in log.entries:
            if entry.index == log.commit + 1:
                cells.append("|")
            cells.append(str(entry.term) if entry.index <= log.durable else f"({entry.term})")
        if log.commit == log.last_index:
            cells.append("|")
        quiet = "  quiet" if self.raft.is_quiet else ""
        if self.raft.is_amnesiac:
            quiet = "  has forgotten something"
        if self.raft.applied < log.commit:
            quiet += f"  applied up to {self.raft.applied}"
        return (
            f"{self.name}  {member.role:13} term {member.term:<2} vote {member.vote or '-'}"
            f"  log {' '.join(cells)}{quiet}"
        )


class Group:
    """All members, and the messages between them, in the order in which they were sent."""

    def __init__(self) -> None:
        self.seats: dict[int, Seat] = {}
        self.mailbox: list[RaftMessage] = []
        self.cut: set[tuple[int, int]] = set()
        self.said: list[str] = []
        self.is_silent = False

    def say(self, line: str) -> None:
        self.said.append(line)

    def seat(
        self, name: int, birth: Configuration, terms: list[int], vote: int, size: int = 1
    ) -> Seat:
        """Give a member a disk with entries of these terms; the first of each is a no-op."""
        platter = Platter(snapshot=LogSnapshot(0, 0, birth), term=max(terms, default=0), vote=vote)
        for index, term in enumerate(terms, start=1):
            is_first = term not in terms[: index - 1]
            entry = noop(index, term, 1) if is_first else LogEntry(index, term, "data", bytes(size))
            platter.entries.append(entry)
        self.seats[name] = seat = Seat(name, platter, self)
        return seat

    def at(self, name: int, action: Callable[[Seat], object]) -> None:
        seat = self.seats[name]
        action(seat)
        seat.pump()

    def taken(self, chosen: Callable[[RaftMessage], bool]) -> list[RaftMessage]:
        """Take these messages from their way."""
        found = [message for message in self.mailbox if chosen(message)]
        self.mailbox = [message for message in self.mailbox if not chosen(message)]
        return found

    def deliver(self, message: RaftMessage) -> None:
        """One message arrives, or does not."""
        line = f"{message.sender} -> {message.to}  {words(message)}"
        seat = self.seats[message.to]
        if (message.sender, message.to) in self.cut or not seat.is_up:
            self.tell(f"{line} (lost)")
            return
        self.tell(line)
        seat.raft.step(message)
        seat.pump()

    def tell(self, line: str) -> None:
        if not self.is_silent:
            self.say(line)

    def deliver_all(self) -> None:
        """Everything arrives, and all that follows from it."""
        for _ in range(400):
            if not self.mailbox:
                return
            self.deliver(self.mailbox.pop(0))
        raise RuntimeError("there is no end of messages")
