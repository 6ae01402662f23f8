"""Goal: what is proposed on any node of a cluster is applied once, everywhere, in one order; it is
found again after crashes with what depends on it; what belongs to a life goes with it.

Method: three whole nodes in simulated time, without clients: changes are proposed by actors of the
test. Their state has to be equal byte by byte whenever they rest. Planted mistakes must be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluicemq.chain.definitions import member, own_proposals
from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
from sluicemq.chain.definitions.own_proposals import OwnProposals
from sluicemq.chain.definitions.spread import Spread
from sluicemq.chain.store.raft_storage import RaftApplied, RaftCommitted
from sluicemq.errors import SluiceError
from sluicemq.kernel.actor import Actor
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.metadata.changes import (
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    Life,
    UpsertRecord,
)
from sluicemq.model.definitions import ExchangeDefinition, QueueDefinition
from sluicemq.model.users import User
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import Delete
from sluicemq.sim.nodes.host import NodeHost
from sluicemq.sim.nodes.plan import nodes_plan
from sluicemq.sim.nodes.run import NodesRun
from sluicemq.sim.units import MS

STEPS_MAX = 200_000


class Asker(Actor):
    """Hears what has become of what it has proposed."""

    def __init__(self, host: NodeHost, look: Callable[[], None] = lambda: None) -> None:
        super().__init__(host.node.scheduler)
        self.answers: list[SluiceError | None] = []
        self.look = look

    def receive(self, message: object) -> None:
        assert isinstance(message, Agreed)
        self.answers.append(message.refusal)
        self.look()


class Bench:
    def __init__(self, seed: int = 1) -> None:
        plan = replace(nodes_plan(seed, 3), sync_ns_max=MS, delay_ns_max=MS)
        self.run = NodesRun(plan)
        self.timeline = self.run.timeline
        self.hosts = self.run.hosts
        for host in self.hosts:
            host.on_open = host.on_end = lambda _: None  # no clients
            host.start()
        self.until(lambda: all(host.is_open for host in self.hosts))

    def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(STEPS_MAX):
            if is_so():
                return
            self.timeline.step()
            if self.run.finding is not None:
                raise self.run.finding
        raise AssertionError(f"it does not come: {is_so}")

    def pass_ms(self, passed_ms: int) -> None:
        end_ns = self.timeline.now_ns + passed_ms * MS
        self.until(lambda: self.timeline.now_ns >= end_ns)

    def agreement(self, number: int) -> ClusterAgreement:
        found = self.hosts[number - 1].node.broker.clustered
        assert found is not None
        return found

    def ask(self, number: int, *changes: Change) -> Asker:
        """Propose at that node."""
        asker = Asker(self.hosts[number - 1])
        for change in changes:
            self.agreement(number).propose(change, asker)
        return asker

    def agree(self, number: int, *changes: Change) -> None:
        """Have these changes agreed on."""
        asker = self.ask(number, *changes)
        self.until(lambda: len(asker.answers) == len(changes))
        assert asker.answers == [None] * len(changes)

    @property
    def leader(self) -> int:
        """The node that leads; 0: none does."""
        leaders = [
            each.number
            for each in self.hosts
            if each.is_running and self.agreement(each.number).followed[0] == each.number
        ]
        return leaders[0] if leaders else 0

    def other(self, *numbers: int) -> int:
        return next(n for n in (1, 2, 3) if n not in numbers)

    def rest(self) -> None:
        """All that run are open, and have applied the same."""

        def are_equal() -> bool:
            running = [host for host in self.hosts if host.is_running]
            if not all(host.is_open for host in running):
                return False
            applied = {m.applied for host in running if (m := self.agreement(host.number).member)}
            return len(applied) == 1 and all(
                self.agreement(host.number).is_idle for host in running
            )

        self.until(are_equal)
        states = {
            self.agreement(host.number).state.snapshot() for host in self.hosts if host.is_running
        }
        assert len(states) == 1, "members that have applied the same differ"

    def restart(self, number: int) -> None:
        self.hosts[number - 1].crash(power=True)
        self.hosts[number - 1].start()


def user(name: str) -> UpsertRecord:
    return UpsertRecord(User(name))


def queue(name: str, **options: object) -> DeclareQueue:
    return DeclareQueue(QueueDefinition(name, **options))  # type: ignore[arg-type]


def test_an_answer_that_does_not_wait_for_the_others_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Spread, "when_applied", lambda _, __, answer: answer())
    with pytest.raises(AssertionError, match="an answer before a node has it"):
        test_an_answer_comes_when_all_nodes_have_it_and_the_verdict_is_everybodys()


def test_an_answer_comes_when_all_nodes_have_it_and_the_verdict_is_everybodys() -> None:
    bench = Bench()
    bench.until(lambda: bench.leader > 0)
    for number in (1, 2, 3):
        name = f"u{number}"

        def look(name: str = name) -> None:
            for each in (1, 2, 3):
                assert name in bench.agreement(each).state.users, "an answer before a node has it"

        asker = Asker(bench.hosts[number - 1], look)
        bench.agreement(number).propose(user(name), asker)
        bench.until(lambda asker=asker: bool(asker.answers))  # type: ignore[misc]
    askers = [
        bench.ask(number, DeclareExchange(ExchangeDefinition("x", kind)))
        for number, kind in ((1, "topic"), (2, "fanout"), (3, "direct"))
    ]
    bench.until(lambda: all(asker.answers for asker in askers))
    refused = [asker.answers[0] for asker in askers if asker.answers[0] is not None]
    assert len(refused) == 2, "one of them is it"
    assert all("inequivalent arg 'type'" in str(each) for each in refused)
    bench.rest()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_proposed_while_leaders_die_is_applied_once_and_in_order(seed: int) -> None:
    """Each user is upserted twice: with a mark, then without; the last word must stay."""
    bench = Bench(seed)
    bench.until(lambda: bench.leader > 0)
    survivor = bench.other(bench.leader)
    askers: list[Asker] = []
    for round_ in range(4):
        for n in range(5):
            name = f"u{round_}-{n}"
            askers.append(bench.ask(survivor, UpsertRecord(User(name, tags=("t",))), user(name)))
            bench.pass_ms(1)
        if round_ == 1 and bench.leader != survivor:
            bench.restart(bench.leader)
    bench.until(lambda: all(len(asker.answers) == 2 for asker in askers))
    assert all(asker.answers == [None, None] for asker in askers)
    bench.rest()
    users = bench.agreement(survivor).state.users
    assert all(each.tags == () for name, each in users.items() if name.startswith("u"))
    assert bench.agreement(survivor).state.proposed[survivor] >= 40


def deaf_commit(mark: RaftApplied, parts: list[bytes]) -> None:
    RaftCommitted.entries(mark, parts)


@pytest.mark.parametrize("is_marked", [True, False], ids=["marked", "planted: no mark"])
def test_a_start_knows_a_queue_before_the_commit_is_known(
    is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes lose power, and one comes back alone: what it has said of the queue counts."""
    bench = Bench()
    if not is_marked:
        monkeypatch.setattr(RaftApplied, "entries", deaf_commit)
    bench.agree(1, queue("q", durable=True))
    bench.rest()
    bench.pass_ms(500)
    for host in bench.hosts:
        host.crash(power=True)
    host = bench.hosts[0]
    host.start()
    found = host.node.broker.vhosts["/"].queues if "/" in host.node.broker.vhosts else {}
    assert ("q" in found) is is_marked
    if is_marked:
        assert isinstance(found["q"].machine, ClassicQueue)
        for other in bench.hosts[1:]:
            other.start()
        bench.rest()


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: at once"])
def test_what_is_not_durable_here_yet_is_not_applied(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the mark could name what the log loses."""
    bench = Bench()
    bench.until(lambda: bench.leader > 0)
    slow = bench.hosts[bench.other(bench.leader) - 1]
    slow.disk.delay_ns_max = 200 * MS
    if is_planted:
        monkeypatch.setattr(member.DefinitionsMember, "has_due", property(lambda m: bool(m.due)))
        monkeypatch.setattr(member.DefinitionsMember, "next_due", next_due_at_once)
    ahead = False
    for number in range(30):
        bench.ask(1 + number % 3, user(f"u{number}"))
        bench.pass_ms(5)
        each = bench.agreement(slow.number).member
        assert each is not None
        ahead |= each.applied > each.raft.member.log.durable
    assert ahead is is_planted
    bench.rest()


def next_due_at_once(each: member.DefinitionsMember) -> member.DueEntry | None:
    if not each.due:
        return None
    entry = each.due.popleft()
    each.applied = entry.at
    return entry


def test_a_node_that_is_down_for_a_minute_loses_what_was_its_own() -> None:
    bench = Bench()
    bench.until(lambda: bench.leader > 0)
    gone = bench.other(bench.leader)
    stays = bench.other(gone)
    own = queue("own", exclusive=True, owner="somebody")
    passing = DeclareExchange(ExchangeDefinition("passing", "fanout"))
    bench.agree(gone, queue("kept", durable=True), passing)
    bench.agree(stays, queue("other"))
    bench.agreement(gone).propose(own)
    bench.rest()
    bench.hosts[gone - 1].crash(power=False)
    bench.pass_ms(59_000)
    state = bench.agreement(stays).state
    assert "passing" in state.hosts["/"].topology.exchanges
    bench.pass_ms(3_000)
    bench.rest()
    assert "passing" not in state.hosts["/"].topology.exchanges
    assert [*state.hosts["/"].queues] == ["kept", "other"]
    bench.hosts[gone - 1].start()
    bench.rest()


def test_a_node_that_was_cut_off_for_a_minute_gives_up_what_it_had() -> None:
    bench = Bench()
    bench.until(lambda: bench.leader > 0)
    away = bench.other(bench.leader)
    bench.agree(away, queue("passing"), queue("kept", durable=True))
    bench.rest()
    host = bench.hosts[away - 1]
    others = [each.name for each in bench.hosts if each is not host]
    ways = [(host.name, name) for name in others] + [(name, host.name) for name in others]
    bench.run.network.cut(dict.fromkeys(ways))
    asker = bench.ask(away, user("in vain"))
    bench.until(lambda: bool(asker.answers))
    assert isinstance(asker.answers[0], NoAgreement)
    assert "1 of 3 are up" in str(asker.answers[0]) or "not agreed" in str(asker.answers[0])
    bench.pass_ms(75_000)
    bench.run.network.cut({})
    bench.rest()
    bench.pass_ms(1000)
    assert [*host.node.broker.vhosts["/"].queues] == ["kept"]
    bench.agree(away, queue("passing"))
    bench.rest()


def test_who_has_missed_too_much_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """And has the queues of its own that are there then, and no others."""
    monkeypatch.setattr(member, "DEFINITIONS_SNAPSHOT_ENTRIES", 10)
    bench = Bench()
    bench.until(lambda: bench.leader > 0)
    away = bench.other(bench.leader)
    busy = bench.other(away)
    bench.agree(away, queue("deleted", durable=True), queue("kept", durable=True))
    bench.rest()
    declared = bench.agreement(busy).state.hosts["/"].queues["deleted"]
    bench.hosts[away - 1].crash(power=True)
    bench.agree(busy, DeleteQueue("/", "deleted", declared.id))
    for number in range(40):
        bench.agree(busy, user(f"u{number}"))
    new = replace_home(queue("new", durable=True), away)
    bench.agree(busy, new)
    bench.hosts[away - 1].start()
    bench.rest()
    host = bench.hosts[away - 1]
    assert any("from the leader" in line for _, line in host.notes)
    assert {*host.node.broker.vhosts["/"].queues} == {"kept", "new"}
    bench.restart(away)
    bench.rest()
    bench.restart(busy)
    bench.rest()


def test_what_is_not_durable_goes_with_the_node_that_it_lives_on() -> None:
    bench = Bench()
    bench.agree(1, replace_home(queue("away"), 2), queue("here"))
    bench.rest()
    bench.restart(2)
    bench.rest()
    assert [*bench.agreement(1).state.hosts["/"].queues] == ["here"]


def test_a_quorum_queue_that_is_deleted_leaves_all_its_nodes() -> None:
    bench = Bench()
    bench.agree(1, queue("q", durable=True, arguments={"x-queue-type": "quorum"}))
    bench.rest()
    known = [host.node.broker.vhosts["/"].queues for host in bench.hosts]
    assert all("q" in queues for queues in known)
    known[1]["q"].post(Delete(None, False, False))
    bench.until(lambda: not any("q" in queues for queues in known))
    bench.rest()
    assert not bench.agreement(1).state.hosts["/"].queues


def replace_home(change: DeclareQueue, home: int) -> DeclareQueue:
    return DeclareQueue(change.definition, life=change.life, home=home)


def test_without_a_majority_it_is_refused_at_once_after_a_while() -> None:
    bench = Bench()
    for host in bench.hosts[1:]:
        host.crash(power=False)
    first = bench.ask(1, user("u"))
    bench.until(lambda: bool(first.answers))
    assert "1 of 3 are up" in str(first.answers[0])
    bench.pass_ms(5_000)
    with pytest.raises(NoAgreement, match="node 2, node 3 cannot be reached"):
        bench.ask(1, user("v"))
    bench.hosts[1].start()
    bench.until(lambda: bench.leader > 0 and not bench.agreement(1).leaderless_ns)
    bench.agree(1, user("w"))
    bench.rest()


def test_what_is_too_large_is_refused() -> None:
    bench = Bench()
    bench.agreement(1).own.bytes_max = 1000
    asker = bench.ask(1, UpsertRecord(User("u" * 2000)), user("v"))
    bench.until(lambda: len(asker.answers) == 2)
    assert "too large: 1000 at most" in str(asker.answers[0])
    assert asker.answers[1] is None


class TestOwnProposals:
    """Those of one node, without any node."""

    def test_what_may_be_lost_is_said_again_with_the_same_numbers(self) -> None:
        own = OwnProposals(Life(1, 1))
        for name in "abc":
            own.add(user(name))
        first = own.to_say()
        assert own.to_say() == []
        assert own.decided(1) is not None
        assert own.decided(1) is None
        own.say_again()
        own.add(user("d"))
        again = own.to_say()
        assert again[:2] == first[1:]
        assert len(again) == 3
        assert [own.decided(number) is not None for number in (2, 3, 4)] == [True] * 3
        assert (len(own), own.under_way_bytes) == (0, 0)

    def test_little_is_under_way_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(own_proposals, "PROPOSALS_BYTES", 200)
        own = OwnProposals(Life(1, 1))
        for number in range(20):
            own.add(user(f"u{number}"))
        said = own.to_say()
        assert 0 < len(said) < 20
        for number in range(1, len(said) + 1):
            own.decided(number)
        assert len(own.to_say()) == len(said)

    def test_who_waits_for_too_long_is_told_and_what_was_not_said_never_will_be(self) -> None:
        told: list[object] = []
        own = OwnProposals(Life(1, 1))
        own.add(user("a"), told.append, until_ns=5)
        own.to_say()
        own.add(user("b"), told.append, until_ns=6)
        own.add(user("c"), told.append, until_ns=9)
        assert own.expired(4) == []
        late = own.expired(7)
        assert [each.number for each in late] == [0, 1]
        assert own.expired(7) == []
        assert (len(own.waiting), [*own.said]) == (1, [1])
        assert own.decided(1) is not None
        assert own.awaited == 1
