"""Goal: what was confirmed is there after a crash at any moment, old journal files go, and a clean
stop says so. Method: a whole node with tiny limits over files in memory; the plug is pulled after
each job of the disk, and another node starts on what was durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.chain.store.checkpoints import Checkpoints
from sluicemq.chain.store.messages import Flushed, StoreWrite
from sluicemq.config import Config
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.disk import DiskJob
from sluicemq.storage.checkpoint import read_newest
from sluicemq.storage.journal import GroupWrite, journal_numbers
from support.batches import batch_of
from support.files import DictFiles

from .client import PERSISTENT, Broker, declared

TINY = replace(Config(), storage=Config.tiny().storage)
SMALL, LARGE = 50, 300
"""Bytes: below and above what is embedded."""


class Life:
    """A node on files that may be there already, and one client of it."""

    def __init__(self, files: DictFiles | None = None) -> None:
        self.files = files or DictFiles()
        self.broker = Broker(TINY, self.files)
        self.broker.run()
        self.client = self.broker.connect()
        self.client.open(1)
        self.client.call(1, m.ConfirmSelect())
        self.confirmed = 0

    def declare(self, *names: str) -> None:
        for name in names:
            [answer] = self.client.call(1, m.QueueDeclare(queue=name, durable=True))
            assert isinstance(answer, m.QueueDeclareOk)

    def publish(self, queue: str, body: bytes) -> None:
        """Returns when it is confirmed."""
        self.client.publish(1, queue, body, raw=PERSISTENT)
        self.confirmed += 1
        [answer] = self.client.events()
        assert isinstance(answer, Acks)
        assert list(answer.tags) == [self.confirmed]

    def get(self, queue: str) -> tuple[bytes, bool] | None:
        """Body and redelivered; its acknowledgement is durable then."""
        self.client.send(1, m.BasicGet(queue=queue, no_ack=True))
        [event] = self.client.events()
        self.broker.wait()
        if not isinstance(event, ContentMethod):
            return None
        assert isinstance(event.method, m.BasicGetOk)
        return content_body(event.content), event.method.redelivered

    def bodies(self, queue: str) -> list[bytes]:
        """All of them, acknowledged."""
        found = []
        while (got := self.get(queue)) is not None:
            found.append(got[0])
        return found

    def crash(self) -> Life:
        """Only what was durable is there for the next."""
        return Life(self.files.crash())

    def stop(self) -> Life:
        self.broker.stop()
        assert self.broker.node.storage_closed
        return Life(self.files.crash())

    @property
    def checkpoints(self) -> int:
        return self.broker.node.broker.store.checkpoints.count


def body(number: int, size: int = SMALL) -> bytes:
    return b"%d " % number + b"x" * size


def mixed(count: int) -> list[bytes]:
    """Two small ones, one large one, ..."""
    return [body(number, LARGE if number % 3 == 2 else SMALL) for number in range(count)]


def test_old_journal_files_go_and_nothing_is_lost() -> None:
    life = Life()
    life.declare("q")
    expected = mixed(200)
    for each in expected:
        life.publish("q", each)
        numbers = journal_numbers(life.files)
        assert len(numbers) <= 5
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert life.checkpoints > 3
    assert numbers[0] > 3
    assert life.crash().bodies("q") == expected


def test_journal_stays_short_while_a_backlog_waits_elsewhere() -> None:
    """The messages of "old" are written to its index once, not again and again."""
    life = Life()
    life.declare("old", "q")
    expected = mixed(9)
    for each in expected:
        life.publish("old", each)
    for number in range(150):
        life.publish("q", body(number))
        assert life.get("q") is not None
    assert life.checkpoints > 3
    index = life.broker.node.broker.vhosts["/"].queues["old"].machine.backing.index
    assert 0 < index.writes <= 3
    after = life.crash()
    assert after.bodies("q") == []
    assert after.bodies("old") == expected


def test_clean_stop_says_so_and_knows_what_was_delivered() -> None:
    life = Life()
    life.declare("q")
    for each in mixed(20):
        life.publish("q", each)
    life.client.send(1, m.BasicGet(queue="q"), m.BasicGet(queue="q"))  # come back unacknowledged
    after = life.stop()
    checkpoint, problems = read_newest(life.files)
    assert checkpoint is not None
    assert checkpoint.clean
    assert problems == []
    got = [after.get("q") for _ in range(20)]
    assert got == [(each, number < 2) for number, each in enumerate(mixed(20))]
    assert after.get("q") is None


def test_clean_stop_knows_what_was_delivered_after_the_last_checkpoint() -> None:
    """A delivery that nobody acknowledges tells the journal nothing."""
    life = Life()
    life.declare("q", "other")
    for number in range(5):
        life.publish("q", body(number))
    before = life.checkpoints
    while life.checkpoints < before + 2:
        life.publish("other", body(0))
    checkpoints = life.broker.node.broker.store.checkpoints
    assert "q" not in [queue.title.split("'")[1] for queue in checkpoints.touched]
    consumer = life.broker.connect()
    consumer.open(1)
    consumer.send(1, m.BasicConsume(queue="q"))
    assert len([event for event in consumer.events() if isinstance(event, Deliveries)]) == 1
    consumer.lose()
    again = life.stop()
    assert [again.get("q") for _ in range(6)] == [*((body(n), True) for n in range(5)), None]


def test_clean_stop_without_a_message_is_clean() -> None:
    """And again, and again."""
    life = Life()
    for _ in range(3):
        life = life.stop()
        life.declare("q")
    assert life.bodies("q") == []


def test_what_comes_behind_the_last_snapshot_is_replayed() -> None:
    """A straggler in a broker that stops: it must not be said to be clean without it."""
    life = Life()
    life.declare("q")
    life.publish("q", b"before")
    node = life.broker.node
    life.client.lose()
    node.close_storage()
    store = node.broker.store
    queue = node.broker.vhosts["/"].queues["q"]
    late = batch_of([b"late"], b"\0\0", persistent=True)
    while not store.checkpoints.syncing and not store.checkpoints.closed:
        if not node.run(1) and life.broker.world.disk.jobs:
            life.broker.world.disk.finish()
    position = queue.machine.backing.next_position
    store.post(StoreWrite(queue, late, None, position, queue.storage.store_inflow))
    store.commits.urgent = True
    life.broker.run()
    assert node.storage_closed
    after = life.crash()
    assert after.broker.node.broker.vhosts["/"].queues["q"].machine.depth.ready == 2


def test_deleted_queue_does_not_hold_up_a_checkpoint() -> None:
    life = Life()
    life.declare("q", "r")
    store = life.broker.node.broker.store
    queue = life.broker.node.broker.vhosts["/"].queues["r"]
    life.publish("r", b"x")
    store.checkpoints.flushing[queue] = None
    store.checkpoints.cut = store.journal.number
    queue.storage.flush_upto = 1 << 40
    life.client.call(1, m.QueueDelete(queue="r"))
    assert store.checkpoints.flushing == {}
    assert store.checkpoints.cut == 0
    store.post(Flushed(queue))
    life.broker.run()


def test_checkpoint_of_a_failed_storage_is_never_written() -> None:
    life = Life()
    life.declare("q")
    before = life.checkpoints
    life.broker.node.broker.store.fail_storage("broken")
    life.broker.stop()
    assert life.broker.node.storage_closed, "it does not hang"
    assert life.checkpoints == before
    assert journal_numbers(life.files)


def test_files_of_a_queue_go_when_its_deletion_is_durable() -> None:
    life = Life()
    life.declare("q", "other")
    for each in mixed(60):
        life.publish("q", each)
    for each in mixed(60):
        life.publish("other", each)
    queue = life.broker.node.broker.vhosts["/"].queues["q"]
    directory = queue.machine.backing.index.directory
    assert life.files.names(directory)
    life.client.post_bytes(m.QueueDelete(queue="q").frame(1))
    while life.broker.node.run(100):
        pass
    assert life.files.names(directory), "a crash would bring the queue back"
    life.broker.run()
    assert life.files.names(directory) == []
    after = life.crash()
    assert "q" not in after.broker.node.broker.vhosts["/"].queues
    assert after.bodies("other") == mixed(60)


def every_job(broker: Broker, look: Callable[[], None]) -> None:
    """`look` after each job of the disk."""
    disk = broker.world.disk
    submit = disk.submit

    def spy(job: DiskJob, actor: Actor, strand: int) -> None:
        run = job.run

        def run_and_look(files: DictFiles) -> None:
            run(files)
            look()

        job.run = run_and_look  # type: ignore[method-assign, assignment]
        submit(job, actor, strand)

    disk.submit = spy  # type: ignore[method-assign]


@pytest.mark.parametrize("keep", [0, 2, 9])
def test_plug_is_pulled_after_each_job(keep: int) -> None:
    """What was confirmed and not acknowledged is there, in order, and nothing else but what was
    on its way; `keep` messages stay in the queue all the time."""
    life = Life()
    life.declare("q")
    confirmed: list[bytes] = []
    on_its_way: list[bytes] = []
    leaving: list[bytes] = []
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        said: list[str] = []
        after = Broker(TINY, life.files.crash())
        after.world.log.write = lambda level, text: said.append(f"{level} {text}")  # type: ignore[method-assign]
        client = after.connect()
        client.open(1)
        found: list[bytes] = []
        while True:
            client.send(1, m.BasicGet(queue="q", no_ack=True))
            [event] = client.events()
            if not isinstance(event, ContentMethod):
                break
            found.append(content_body(event.content))
        rest = found[1:] if found[:1] == leaving[:1] else found
        assert rest in (confirmed, [*confirmed, *on_its_way])
        assert said == []

    every_job(life.broker, look)
    for each in mixed(150):
        on_its_way = [each]
        life.publish("q", each)
        on_its_way = []
        confirmed.append(each)
        while len(confirmed) > keep:
            leaving = [confirmed.pop(0)]
            got = life.get("q")
            assert got is not None
            assert got[0] == leaving[0]
            leaving = []
    assert life.checkpoints > 2
    assert looks > 300


def test_recovery_gives_queues_new_ids() -> None:
    """A queue that is declared after a crash does not get the id of one that is deleted."""
    life = Life()
    life.declare("q", "r")
    highest = max(life.broker.node.broker.store.durable_queues)
    life.client.call(1, m.QueueDelete(queue="r"))
    after = life.crash()
    queue = declared(after.broker.node.broker, "new")
    assert queue.id > highest - 1
    assert queue.id not in [
        each.id
        for each in after.broker.node.broker.vhosts["/"].queues.values()
        if each is not queue
    ]


def content(channel: int, queue: str, data: bytes) -> bytes:
    """The frames of a persistent message."""
    head = m.BasicPublish(exchange="", routing_key=queue).frame(channel)
    return head + content_frames(channel, PERSISTENT, data, 4096)


def work(life: Life) -> None:
    """All that can be done while the disk does nothing."""
    while life.broker.node.run(1000):
        pass


def finish_all_but(life: Life, kind: type[DiskJob]) -> None:
    """The same with the disk; only jobs of this kind take for ever."""
    jobs = life.broker.world.disk.jobs
    work(life)
    while ready := [each for each in jobs if not isinstance(each[0], kind)]:
        jobs.remove(ready[0])
        jobs.insert(0, ready[0])
        life.broker.world.disk.finish()
        work(life)


def drops_the_first(life: Life) -> bytes:
    """What makes the only message that "one" may hold go, for another."""
    life.client.call(1, m.QueueDeclare(queue="one", durable=True, arguments={"x-max-length": 1}))
    life.publish("one", b"first")
    return content(1, "one", b"second")


def takes_and_publishes(life: Life) -> bytes:
    """The same by a client that takes it."""
    life.declare("one")
    life.publish("one", b"first")
    client = life.client
    client.open(2)
    client.call(2, m.BasicGet(queue="one"))
    return content(2, "one", b"second") + m.BasicAck(delivery_tag=1).frame(2)


def with_a_checkpoint_under_way(exchange: Callable[[Life], bytes]) -> Life:
    """A message goes and another comes in its place, in one group of the journal. While that is on
    its way a checkpoint is made, as far as it can be."""
    life = Life()
    life.declare("other")
    frames = exchange(life)
    while life.checkpoints < 3:
        life.publish("other", body(1))
    store = life.broker.node.broker.store
    while True:
        life.client.post_bytes(content(1, "other", body(1)))
        work(life)
        if store.journal.offset >= store.journal.size_limit:
            break  # this group is the last of its file
        life.broker.run()
    life.client.post_bytes(frames)
    work(life)
    life.broker.world.disk.finish()
    finish_all_but(life, GroupWrite)
    assert store.sync_runs
    return life


@pytest.mark.parametrize("exchange", [drops_the_first, takes_and_publishes])
def test_no_checkpoint_is_ahead_of_the_journal(exchange: Callable[[Life], bytes]) -> None:
    """Whenever the power goes, one of both messages is there."""
    life = with_a_checkpoint_under_way(exchange)
    before = life.checkpoints
    assert life.crash().bodies("one") == [b"first"]
    life.broker.run()
    assert life.checkpoints > before
    assert life.crash().bodies("one") == [b"second"]


def test_no_checkpoint_is_made_of_what_the_journal_could_not_be_told() -> None:
    """The group fails, and with it the storage."""
    life = with_a_checkpoint_under_way(drops_the_first)
    before = life.checkpoints
    life.files.fail = lambda action, path: "EIO" * (action == "sync" and "journal" in path) or None
    life.broker.run()
    assert life.broker.node.broker.store.storage_failed
    life.broker.stop()
    assert life.broker.node.storage_closed, "it does not hang"
    assert life.checkpoints == before
    assert life.crash().bodies("one") == [b"first"]


def test_a_group_without_space_does_not_hold_up_the_checkpoint_that_makes_some() -> None:
    """The disk has no space for one more file of the journal, while a checkpoint waits for what
    would be in there. A file that only the checkpoint before the last one needs goes."""
    life = Life()
    life.declare("other")
    life.client.call(1, m.QueueDeclare(queue="one", durable=True, arguments={"x-max-length": 1}))
    files = life.files
    while life.checkpoints < 3:
        life.publish("other", body(1))
    files_max = len(journal_numbers(files))  # as few as there ever are beside a new one

    def fail(action: str, path: str) -> str | None:
        is_new = action == "allocate" and path not in files.files
        return "ENOSPC" if is_new and len(journal_numbers(files)) >= files_max else None

    before, refused = life.checkpoints, 0
    files.fail = fail
    for number in range(200):
        for queue in ("other", "one"):  # the second while the first is on its way
            life.client.post_bytes(content(1, queue, body(number)))
            work(life)
        life.broker.run()
        refused += bool(life.broker.node.broker.no_space)
        life.broker.wait()
        assert not life.broker.node.broker.no_space
    assert life.checkpoints > before + 3
    assert refused > 3
    assert life.crash().bodies("one") == [body(199)]


class Spread:
    """A node whose turns are so short that each queue is looked at in one of its own, and a client
    that goes on publishing meanwhile. Of every other queue only the last message stays."""

    QUEUES = 8

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.life = Life()
        for number in range(self.QUEUES):
            arguments = {"x-max-length": 1} if number % 2 else {}
            declare = m.QueueDeclare(queue=f"q{number}", durable=True, arguments=arguments)
            self.life.client.call(1, declare)
        self.life.broker.node.scheduler.turn_work = 30
        self.sent: list[tuple[int, bytes]] = []
        self.confirmed: set[int] = set()
        """By delivery tag."""

    @property
    def checkpoints(self) -> Checkpoints:
        return self.life.broker.node.broker.store.checkpoints

    def step(self) -> None:
        """A publish now and then, some turns, a job of the disk when nothing else is to be done."""
        life, random = self.life, self.random
        if random.random() < 0.3:
            number = random.randrange(self.QUEUES)
            self.sent.append((number, body(len(self.sent), random.choice((SMALL, LARGE)))))
            life.client.post_bytes(content(1, f"q{number}", self.sent[-1][1]))
        if not life.broker.node.run(random.randrange(1, 6)) and life.broker.world.disk.jobs:
            life.broker.world.disk.finish()
        for event in life.client.events():
            if isinstance(event, Acks):  # else they are refused
                self.confirmed.update(event.tags)

    def look(self) -> None:
        """After a loss of power each confirmed message is there, or one that came in its place, or
        that it would have taken the place of (what has gone already is confirmed at once)."""
        after = self.life.crash()
        for number in range(self.QUEUES):
            found = after.bodies(f"q{number}")
            said = [
                data
                for tag, (queue, data) in enumerate(self.sent, 1)
                if queue == number and tag in self.confirmed
            ]
            if number % 2:
                assert found or not said
            else:
                assert [data for data in said if data not in found] == []


@pytest.mark.parametrize("seed", range(3))
def test_power_goes_while_a_checkpoint_looks_at_one_queue_after_the_other(seed: int) -> None:
    spread = Spread(seed)
    looks = 0
    while spread.checkpoints.count < 4:
        spread.step()
        if spread.checkpoints.underway is not None or spread.checkpoints.looked:
            looks += 1
            if looks % 4 == 0:
                spread.look()
    spread.look()
    assert looks > 30
    assert len(spread.confirmed) > 50


@pytest.mark.parametrize("seed", range(4))
def test_queue_that_faults_before_it_was_looked_at_is_waited_for(seed: int) -> None:
    spread = Spread(seed)
    checkpoints = spread.checkpoints
    while checkpoints.count < 2:
        spread.step()
    while True:
        spread.step()
        is_looking = checkpoints.underway is not None and not checkpoints.telling
        unseen = [each for each in checkpoints.touched if each.settings.max_length is None]
        if is_looking and unseen and not checkpoints.flushing:
            break
    before = checkpoints.count
    unseen[-1].faulted(RuntimeError("planted"))
    while checkpoints.count == before:
        spread.step()
    spread.look()
    assert unseen[-1].successor is not None


def test_checkpoint_that_is_broken_off_leaves_the_one_before() -> None:
    spread = Spread(1)
    while spread.checkpoints.count < 2:
        spread.step()
    before = spread.checkpoints.count
    while spread.checkpoints.underway is None:
        spread.step()
    spread.life.broker.node.broker.store.fail_storage("broken")
    for _ in range(200):
        spread.step()
    assert spread.checkpoints.count == before
    assert spread.checkpoints.underway is None
    spread.look()


def test_no_turn_sees_more_than_it_may() -> None:
    """However many queues there are."""
    life = Life()
    store = life.broker.node.broker.store
    for number in range(500):
        queue = declared(life.broker.node.broker, f"q{number}")
        store.journal.mark(queue.id, 1)
    life.broker.run()
    before = life.checkpoints
    for _ in range(2):
        store.journal.offset = max(1, store.journal.offset)
        store.journal.next_file()
    most = 0
    store.checkpoints.rotated()
    while life.checkpoints == before:
        known = len(store.checkpoints.states) + len(store.checkpoints.flushing)
        life.broker.node.run(1)
        now = len(store.checkpoints.states) + len(store.checkpoints.flushing)
        most = max(most, now - known)
        if life.broker.world.disk.jobs:
            life.broker.world.disk.finish()
    assert 10 < most < 200
