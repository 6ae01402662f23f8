"""Rebuilds the state from a data directory: the newest checkpoint, then the journal behind it.

    look     reads only: finds what exists, what is damaged, and what is missing
    decide   refuses to go on from a loss, unless told to
    settle   makes the result durable, with a new checkpoint, and then deletes useless files

So a refused start has changed nothing, and nothing old is deleted before a new checkpoint is
durable: an interrupted recovery can begin again. It writes messages that only the journal has to
the segments of their queues: afterwards every message is in a queue index, and the journal begins
anew. It does not read segments, except for blocks that refer to the message store, from which it
counts references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from sluicemq.errors import DiskFailed, LossRefused
from sluicemq.kernel.disk import Files
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.metadata.tables import DurableTables
from sluicemq.storage.audit import UNREADABLE, Loss
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.checkpoint import (
    DIRECTORY as CHECKPOINT,
)
from sluicemq.storage.checkpoint import (
    KEPT,
    Checkpoint,
    numbered,
    read_newest,
    write_checkpoint,
)
from sluicemq.storage.compaction import put_aside
from sluicemq.storage.entries import (
    Ack,
    Definition,
    Delivered,
    Entry,
    QueueDeleted,
    Run,
    StreamFiles,
)
from sluicemq.storage.index_audit import IndexAudit, copy_aside
from sluicemq.storage.journal import (
    DIRECTORY as JOURNAL,
)
from sluicemq.storage.journal import (
    Replay,
    journal_numbers,
    journal_path,
)
from sluicemq.storage.left_over import left_over
from sluicemq.storage.manifest import (
    NO_MANIFEST_FORMAT,
    Manifest,
    read_manifest,
    update_manifest,
    write_manifest,
)
from sluicemq.storage.manifest import PATH as MANIFEST
from sluicemq.storage.message_files import MessageFiles
from sluicemq.storage.message_recovery import Recovered
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.queue_replica import QueueReplica
from sluicemq.storage.raft.agreed_definitions import agreed_definitions
from sluicemq.storage.raft.audit import RaftAudit
from sluicemq.storage.raft.group_state import decode_raft_group, encode_raft_group
from sluicemq.storage.raft.groups import RaftGroups
from sluicemq.storage.raft.segment_file import raft_directory
from sluicemq.storage.records import size_of_record
from sluicemq.storage.segments import NAME as SEGMENT_NAME
from sluicemq.storage.segments import QUEUES, TRANSIENT_QUEUES, queue_directory
from sluicemq.storage.stream_recovery import StreamRecovery

if TYPE_CHECKING:
    from sluicemq.metadata.state import DeclaredState

BALLAST: Final = "reserve"
"""The file that is deleted when the disk is full (chain/store/ballast.py)."""
WHAT_IS_LOST: Final = "messages, acknowledgements and definitions are lost"
"""Lost with a file of the journal; only the file itself could say more."""
EVERY_FILE: Final = 1
"""Entries of Raft groups that a start has found are in no file of its own journal, but are carried
on."""
PROGRESS_EVERY: Final = 1000
"""The number of queues between two log lines about progress."""


class Recovery:
    """One start of one data directory.

    `say` takes lines for the log, as (level, text). With `accept_loss` the start does without
    missing data, and puts its remains aside. When it is `thorough`, it reads segments whole, and
    rewrites damaged ones without the damage.
    """

    def __init__(
        self,
        files: Files,
        entry_count: int,
        new_file_id: Callable[[], bytes],
        say: Callable[[str, str], None],
        accept_loss: bool = False,
        thorough: bool = False,
    ) -> None:
        self.files = files
        self.entry_count = entry_count
        self.new_file_id = new_file_id
        self.say = say
        self.accept_loss = accept_loss
        self.given_up = UNREADABLE if accept_loss else ()
        """Errors with which an unreadable file counts as lost."""
        self.queues: dict[int, QueueReplica] = {}
        self.definitions = DurableTables()
        self.declared: DeclaredState | None = None
        """In a cluster, all definitions known to this node; `definitions` has the durable part.
        None when the node is alone, or new."""
        self.clean = True
        self.is_new = True
        self.checkpoint_number = 0
        self.journal_number = 1
        self.next_message_id = 1
        self.next_queue_id = 1
        self.node_id = b""
        self.deleted: set[int] = set()
        self.stream_files: dict[int, StreamFiles] = {}
        """The known files of streams."""
        self.streams: dict[int, StreamRecovery] = {}
        """The recoveries of the streams; the owner of each log settles its own."""
        self.groups = RaftGroups()
        """The known Raft groups."""
        self.may_have_forgotten = False
        """True when part of the journal or of a checkpoint is damaged or lost."""
        self.losses: list[Loss] = []
        """Everything that is missing."""
        self.manifest: Manifest | None = None
        """The durable manifest; None without one."""
        self.manifest_is_whole = False
        self.numbers: list[int] = []
        """The numbers of all files of the journal."""
        self.damaged: list[str] = []
        """Files to copy before they are deleted."""
        self.aside: list[str] = []
        """Files that are not what they must be, except segments."""
        self.segments = IndexAudit(files, self.losses, say, self.given_up, thorough)
        self.raft = self.raft_audit()

    def run(
        self,
        persistent: MessageFiles,
        transient: MessageFiles,
        bootstrap: Callable[[DurableTables], None] = lambda _: None,
    ) -> None:
        """Do a whole start. `bootstrap` adds the initial definitions. Raises Refused when a newer
        version wrote the directory, LossRefused when a loss was not accepted, Corrupt for data that
        no version writes, and DiskFailed."""
        self.look(persistent)
        self.decide()
        bootstrap(self.definitions)
        self.settle(persistent, transient)

    def look(self, persistent: MessageFiles) -> None:
        """Find out what exists, without changing anything. Raises Refused when a newer version
        wrote it, Corrupt for data that no version writes, and DiskFailed."""
        files = self.files
        checkpoint, problems = read_newest(files)
        self.warn(problems if checkpoint is not None else [])  # else these are the loss
        self.may_have_forgotten = bool(problems)
        self.numbers = journal_numbers(files)
        manifest = self.look_at_manifest(checkpoint)
        if checkpoint is None:
            self.begin_anew(problems, manifest)
        else:
            self.start_from(checkpoint)
            self.replay(manifest)
        self.look_at_agreed_definitions()
        self.match_definitions()
        self.look_at_segments()
        self.count_references(persistent)
        self.look_at_streams()
        self.look_at_groups()

    def decide(self) -> None:
        """Log all losses, and raise LossRefused if there are any that were not accepted."""
        for loss in self.losses:
            self.say("error", f"recovery: {loss}")
        if self.losses and not self.accept_loss:
            count = len(self.losses) - 1
            more = f" ({count} more such losses: see the log)" * (count > 0)
            raise LossRefused(
                f"{self.losses[0]}{more}. Nothing was changed. Put back what is missing; or go on"
                " without it: start once with --accept-loss, or use `sluicemq fsck --repair`"
            )

    def settle(self, persistent: MessageFiles, transient: MessageFiles) -> None:
        """Make the result durable, with a new checkpoint, and delete useless files. A crash at any
        point leaves what `look` finds again. Raises DiskFailed."""
        files = self.files
        files.delete(BALLAST)  # there may be no other space for these writes
        files.delete_tree(TRANSIENT_QUEUES)
        transient.wipe(files)
        for path in dict.fromkeys(self.damaged):
            copy_aside(files, path, self.say)
        for path in [*self.aside, *self.segments.aside]:
            self.say("error", f"recovery: {path} is {put_aside(files, path)} now")
        self.write_back()
        persistent.make_durable(files)
        for stream in self.streams.values():
            stream.settle()  # before a checkpoint requires its files
        self.raft.settle()
        self.journal_number = max([self.journal_number, *self.numbers]) + 1
        manifest = self.manifest or Manifest(self.node_id)
        if not self.manifest_is_whole:
            manifest = manifest._replace(generation=manifest.generation + 1)
            write_manifest(files, manifest)
        for _ in range(KEPT):  # each must do without the journal that is deleted now
            self.checkpoint_number += 1
            write_checkpoint(files, self.checkpoint(clean=False))
        if not manifest.checkpoint:  # without a checkpoint it must not claim one
            generation = manifest.generation + 1
            manifest = manifest._replace(generation=generation, checkpoint=self.checkpoint_number)
            update_manifest(files, manifest.record())
        self.manifest = manifest
        self.tidy(persistent)

    def tidy(self, persistent: MessageFiles) -> None:
        """Delete useless files, now that a checkpoint that does without them is durable. Raises
        DiskFailed."""
        files = self.files
        persistent.tidy(keep=bool(self.losses))
        self.drop_unknown()
        self.raft.tidy(self.drop)
        for number in self.numbers:
            files.delete(journal_path(number))
        if self.numbers:
            files.sync_directory(JOURNAL)

    def warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.say("error", f"recovery: {problem}")

    # -- the checkpoint

    def look_at_manifest(self, checkpoint: Checkpoint | None) -> Manifest | None:
        """Return the manifest; None when it cannot be read. An unreadable one is a loss; so is a
        missing one, unless the directory is new or was made before there was a manifest."""
        found = read_manifest(self.files, checkpoint.node_id if checkpoint else None)
        self.manifest = found.manifest
        self.manifest_is_whole = found.manifest is not None and not (found.problem or found.note)
        if found.note:
            self.say("info", f"recovery: {MANIFEST}: {found.note}")
        if found.problem and found.manifest is not None:
            self.say("error", f"recovery: {MANIFEST}: {found.problem}; rewriting it")
        elif found.problem:
            text = "without it nobody knows whether journal files are missing"
            self.lose(MANIFEST, f"cannot be read: {found.problem}; {text}")
        if found.problem:
            self.damaged.append(MANIFEST)
            self.may_have_forgotten = True
        is_due = checkpoint is not None and checkpoint.format > NO_MANIFEST_FORMAT
        if found.manifest is None and not found.problem and is_due:
            text = "is missing; without it nobody knows whether journal files are missing"
            self.lose(MANIFEST, text)
        return found.manifest

    def begin_anew(self, problems: list[str], manifest: Manifest | None) -> None:
        """Begin without a checkpoint: this directory is new, or has lost all checkpoints."""
        self.node_id = self.new_file_id()
        found = [*left_over(self.files)]
        if problems:
            self.lose(CHECKPOINT, f"has no checkpoint that can be read: {'; '.join(problems)}")
        elif found:
            text = f"has no checkpoint, without which the {len(found)} other files cannot be used"
            self.lose(CHECKPOINT, f"{text} (the first is {found[0]}): everything is lost")
        elif manifest is not None and manifest.checkpoint:
            self.lose(CHECKPOINT, "has no checkpoint, though one was written: everything is lost")
        if manifest is not None:
            self.journal_number = max(self.journal_number, manifest.journal_last)
            self.aside += [MANIFEST] * bool(self.losses)
        self.manifest, self.manifest_is_whole = None, False  # it has another node's id
        self.aside += [path for path in found if not path.startswith(CHECKPOINT)]
        self.aside += [path for path in found if path.startswith(CHECKPOINT)]
        self.clean = not self.losses

    def lose(self, path: str, text: str) -> None:
        """Note a loss; `text` says what is lost of `path`."""
        self.losses.append(Loss(path, text))
        if path.startswith((CHECKPOINT, JOURNAL, MANIFEST)):
            self.may_have_forgotten = True

    def start_from(self, checkpoint: Checkpoint) -> None:
        """Take over the state of the checkpoint."""
        self.is_new = False
        self.checkpoint_number = max(number for number, _ in numbered(self.files.names(CHECKPOINT)))
        self.node_id = checkpoint.node_id
        self.definitions = DurableTables(checkpoint.definitions)
        self.next_message_id = checkpoint.next_message_id
        self.next_queue_id = checkpoint.next_queue_id
        if self.entry_count != checkpoint.segment_entry_count:
            self.entry_count = checkpoint.segment_entry_count
            text = f"segments have {self.entry_count} entries in this directory, not as configured"
            self.say("warning", text)
        self.journal_number = checkpoint.journal_first
        behind = any(number >= checkpoint.journal_first for number in self.numbers)
        self.clean = checkpoint.clean and not behind
        for state in checkpoint.queues:
            self.queue(state.id).adopt(state)
        self.stream_files = {each.queue: each for each in checkpoint.streams}
        self.groups = RaftGroups(map(decode_raft_group, checkpoint.groups))
        self.raft = self.raft_audit()

    # -- segments

    def look_at_segments(self) -> None:
        """Check that the file of each segment is there, and is the right one."""
        for queue in self.queues.values():
            self.segments.look(queue, self.title(queue))

    def title(self, queue: QueueReplica) -> str:
        """Return a text that names a queue for users."""
        definition = self.definitions.queues[queue.index.queue_id]
        return f"queue {definition.name!r} in {definition.vhost!r}"

    def queue(self, queue_id: int) -> QueueReplica:
        """Return the queue with that id; a new one is empty."""
        known = self.queues.get(queue_id)
        if known is None:
            directory = queue_directory(queue_id, durable=True)
            index = QueueIndex(queue_id, directory, self.entry_count, self.new_file_id)
            known = self.queues[queue_id] = QueueReplica(index)
        return known

    # -- the journal

    def replay(self, manifest: Manifest | None) -> None:
        """Apply the entries of the journal behind the checkpoint, in the order of writing."""
        numbers = [number for number in self.numbers if number >= self.journal_number]
        self.count_files(numbers, manifest)
        self.journal_number = max(self.journal_number, manifest.journal_last if manifest else 0)
        expected = 0
        for number in numbers:
            found = self.journal_file(number, manifest)
            if found is None:
                continue
            for sequence in found.sequences:
                if expected and sequence != expected:
                    text = f"groups {expected} to {sequence - 1} are missing"
                    found.problems.append(f"{found.path}: {text}")
                expected = sequence + 1
            is_full = manifest is not None and manifest.is_full(number, found.end)
            if found.torn and not is_full and number != numbers[-1]:
                found.problems.append(f"{found.path}: its end is damaged")
            elif found.torn and not is_full:
                text = "its last group was not finished, or the file had been used before"
                self.say("info", f"recovery: {found.path}: {text}")
            self.warn(found.problems)
            if found.problems or found.unreadable:
                self.damaged.append(found.path)
                self.may_have_forgotten = True
            for entry in found.entries:
                self.apply(entry)

    def count_files(self, numbers: list[int], manifest: Manifest | None) -> None:
        """Note missing files of the journal. Without a manifest only a newer file shows that an
        older one is missing."""
        wanted = {*numbers}
        if numbers:
            wanted |= {*range(self.journal_number, numbers[-1])}
        if manifest is not None:
            wanted |= {*manifest.expected(self.journal_number)}
        missing = sum(1 << number for number in wanted.difference(numbers))
        for each in ranges_of(missing, 0):
            self.lose_journal(each[0], each[-1])

    def journal_file(self, number: int, manifest: Manifest | None) -> Replay | None:
        """Return the entries of one file of the journal; None when the disk fails and a loss is
        accepted. Missing entries are a loss. Raises DiskFailed."""
        path = journal_path(number)
        file_id = manifest.journal_id(number) if manifest is not None else None
        try:
            size = self.files.size(path)
            found = Replay(self.files, number, file_id)
        except DiskFailed as failure:
            if failure.code not in self.given_up:
                raise
            self.lose(path, f"cannot be read ({failure.code}): {WHAT_IS_LOST}")
            return None
        if found.unreadable:
            self.lose(path, f"cannot be read: {found.unreadable}: {WHAT_IS_LOST}")
        elif file_id is not None and manifest is not None and size < manifest.journal_bytes:
            text = f"has {size} of at least {manifest.journal_bytes} bytes"
            self.lose(path, f"{text}: {WHAT_IS_LOST}, those behind its end")
            found.torn = False
            self.damaged.append(path)
        return found

    def lose_journal(self, first: int, last: int) -> None:
        """Note that the journal's files `first` to `last` are missing."""
        others = f" with those up to number {last}" if last > first else ""
        self.lose(journal_path(first), f"is missing{others}: {WHAT_IS_LOST}")

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Run | Ack | Delivered):
            if entry.queue not in self.deleted:
                self.queue(entry.queue).apply(entry)
                if isinstance(entry, Run):
                    self.next_queue_id = max(self.next_queue_id, entry.queue + 1)
                    if entry.contents is None:
                        self.next_message_id = max(self.next_message_id, entry.ids[-1] + 1)
        elif isinstance(entry, Definition):
            self.definitions.apply(entry.change)
        elif isinstance(entry, StreamFiles):
            known = self.stream_files.get(entry.queue, entry)
            self.stream_files[entry.queue] = entry.after(known)
        elif not isinstance(entry, QueueDeleted):
            self.groups.apply(entry)
        else:
            self.deleted.add(entry.queue)
            self.definitions.delete_queue(entry.queue)
            self.queues.pop(entry.queue, None)

    def look_at_agreed_definitions(self) -> None:
        """In a cluster, begin with the definitions in their Raft group, as far as this node had
        applied them: the journal was written with no more than these."""
        group = self.groups.groups.get(DEFINITIONS_GROUP)
        if group is None:
            return
        committed = group.commit
        self.raft.look_at(group)
        if group.last_index < committed:
            text = f"lacks entries {group.last_index + 1} to {committed}: definitions are lost"
            self.lose(raft_directory(group.id), text)
        self.declared = agreed_definitions(self.groups)
        self.definitions = DurableTables(self.declared.encode())

    def match_definitions(self) -> None:
        """Forget queues that are not defined, and make defined ones of which nothing was found.
        Unless the broker stopped in order, all messages count as delivered."""
        self.definitions.drop_loose_bindings()
        if self.definitions.cut_off:
            self.warn(["parameters nested too deep have lost their innermost parts"])
        defined = self.definitions.queues
        self.queues = {key: queue for key, queue in self.queues.items() if key in defined}
        for key in defined:
            queue = self.queue(key)
            self.next_queue_id = max(self.next_queue_id, key + 1)
            if not self.clean:
                queue.all_delivered()  # nobody knows which were

    # -- to the segments

    def write_back(self) -> None:
        """Write messages that only the journal has to segments, durably. Raises DiskFailed."""
        self.segments.mend()
        for done, queue in enumerate(self.queues.values()):
            if done and not done % PROGRESS_EVERY:
                self.say("info", f"recovery: {done} of {len(self.queues)} queues")
            queue.save(self.files)

    # -- the message store

    def count_references(self, persistent: MessageFiles) -> None:
        """Count how many queues refer to each body in the message store. A message without its body
        is reported, and removed from its queue."""
        counts: dict[int, int] = {}
        where: list[tuple[QueueReplica, Run]] = []
        for queue in self.queues.values():
            for run in queue.references(self.files, self.warn):
                where.append((queue, run))
                for message_id in run.ids:
                    counts[message_id] = counts.get(message_id, 0) + 1
        found = persistent.look(self.files, counts, self.given_up)
        for each in found.problems:  # if no message is missing, a write was cut off there
            self.say("error" if found.missing else "info", f"recovery: {each.path}: {each.text}")
        highest = max(persistent.highest_id, found.highest_id)
        self.next_message_id = max(self.next_message_id, highest + 1)
        missing = set(found.missing)
        size = 0
        lost: dict[QueueReplica, int] = {}
        for queue, run in where if missing else ():
            for position, message_id, body in zip(run.positions, run.ids, run.sizes, strict=True):
                if message_id in missing:
                    queue.acknowledge(range(position, position + 1))
                    lost[queue] = lost.get(queue, 0) + 1
                    size += size_of_record(body) if counts.pop(message_id, 0) else 0
        if missing:
            self.say("error", f"recovery: {len(missing)} messages have no body and are dropped")
        self.judge_bodies(persistent, found, size, lost)

    def judge_bodies(
        self,
        persistent: MessageFiles,
        found: Recovered,
        size: int,
        lost: dict[QueueReplica, int],
    ) -> None:
        """Decide which files are lost, when bodies of `size` bytes, as records, are in no readable
        file, and the messages counted in `lost` with them.

        Damaged records account for their own bytes; other missing bytes were in a missing or
        truncated file.
        """
        queues = ", ".join(f"{count} of {self.title(queue)}" for queue, count in lost.items())
        for path, _, _, text in found.unreadable:
            if lost:
                self.lose(path, f"cannot be read: {text}; messages are lost: {queues}")
            else:
                self.say("error", f"recovery: {path}: {text}; put aside, no queue needs it")
        if size > found.damaged_bytes and not found.unreadable:
            text = f"lacks a file, or one in there was truncated: messages are lost: {queues}"
            self.lose(persistent.directory, text)

    # -- streams

    def look_at_streams(self) -> None:
        """Check that the files of each stream are there, and find losses."""
        for key, definition in self.definitions.in_stream_files().items():
            title = f"stream {definition.name!r} in {definition.vhost!r}"
            known = self.stream_files.get(key)
            stream = StreamRecovery(self.files, key, title, self.say, known, self.given_up)
            stream.look()
            self.losses += stream.losses
            self.streams[key] = stream

    # -- Raft groups

    def raft_audit(self) -> RaftAudit:
        """Return the audit of the files of all known groups."""
        warn = self.warn
        given_up, thorough = self.given_up, self.segments.thorough
        return RaftAudit(
            self.files, self.groups, self.lose, lambda text: warn([text]), given_up, thorough
        )

    def look_at_groups(self) -> None:
        """Read the logs of all Raft groups. After damage to shared files no member knows whether it
        has forgotten something."""
        self.raft.look()
        if self.may_have_forgotten and self.groups.groups:
            self.groups.suspect_all()
            self.warn(["what this node's Raft members have said may be lost: they are silent now"])

    # -- the end

    def drop_unknown(self) -> None:
        """Delete directories of deleted queues, and segments without live messages. Foreign
        files stay. Raises DiskFailed."""
        files = self.files
        for path in self.strays():
            self.say("warning", f"recovery: {path} does not belong to a broker; it stays as it is")
        for name in files.names(QUEUES):
            path = f"{QUEUES}/{name}"
            if name.isdecimal() and files.is_directory(path) and int(name) not in self.queues:
                self.drop_tree(path)
        for queue in self.queues.values():
            directory = queue.index.directory
            queue.collect()
            known = {segment.path for segment in queue.index.segments.values()}
            for name in files.names(directory):
                path = f"{directory}/{name}"
                is_ours = SEGMENT_NAME.fullmatch(name) and not files.is_directory(path)
                if is_ours and path not in known:
                    self.drop(path)

    def strays(self) -> Iterable[str]:
        """Yield the paths of files among the queues that no broker has made."""
        files = self.files
        for name in files.names(QUEUES):
            path = f"{QUEUES}/{name}"
            if not name.isdecimal() or not files.is_directory(path):
                yield path
        for queue in self.queues.values():
            directory = queue.index.directory
            for name in files.names(directory) if files.is_directory(directory) else ():
                path = f"{directory}/{name}"
                if not SEGMENT_NAME.fullmatch(name) or files.is_directory(path):
                    yield path

    def drop_tree(self, path: str) -> None:
        """Delete the directory of an unknown queue; after a loss its files are put aside."""
        for name in self.files.names(path) if self.losses else ():
            self.drop(f"{path}/{name}")
        if not self.losses:
            self.files.delete_tree(path)

    def drop(self, path: str) -> None:
        """Delete an unneeded file. After a loss it is put aside, because the data that needs it may
        be what was lost."""
        if self.losses:
            kept = put_aside(self.files, path)
            self.say("error", f"recovery: nothing refers to {path} any more; it is {kept} now")
        else:
            self.files.delete(path)

    def checkpoint(self, clean: bool) -> Checkpoint:
        """Return a checkpoint of the present state."""
        states = [queue.state() for queue in self.queues.values()]
        return Checkpoint(
            self.checkpoint_number,
            clean,
            self.journal_number,
            self.next_message_id,
            self.next_queue_id,
            self.node_id,
            self.definitions.encode(),
            states,
            self.entry_count,
            [now for stream in self.streams.values() if (now := stream.files_now) is not None],
            [encode_raft_group(each, EVERY_FILE) for each in self.groups.groups.values()],
        )
