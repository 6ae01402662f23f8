"""Goal: the declared state decides from itself and the change alone, whatever comes.

Method: random changes, among them ones that make no sense, go to one member as values, to another
as bytes, and now and then a third begins with a snapshot; after each all of them say the same, byte
for byte, and what must hold of the state holds. Durable facts go to the tables that a restart
reads.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sluicemq.errors import ChannelViolation, ConnectionViolation, ProtocolViolation, Refused
from sluicemq.metadata.changes import (
    ONLY_LIFE,
    SOURCE,
    Bind,
    Bootstrap,
    Change,
    CloseVhost,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteRecord,
    Life,
    LifeOver,
    NodeStarted,
    RenumberQueue,
    Together,
    Unbind,
    UnbindSome,
    UpsertRecord,
)
from sluicemq.metadata.codec import decode, encode
from sluicemq.metadata.events import (
    Applied,
    Event,
    QueueAdded,
    QueueRemoved,
    RecordDeleted,
    RecordUpserted,
)
from sluicemq.metadata.record_tables import BELONG_TO
from sluicemq.metadata.replacing import replace_state
from sluicemq.metadata.restoring import restored, restored_from_snapshot
from sluicemq.metadata.state import DeclaredState
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.definitions import (
    EXCHANGE,
    QUEUE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from sluicemq.model.parameters import Parameter
from sluicemq.model.permissions import Permission
from sluicemq.model.policies import Policy
from sluicemq.model.record import DefinitionRecord
from sluicemq.model.users import User
from sluicemq.model.vhosts import MAX_QUEUES, VhostDefinition
from sluicemq.routing.delayed import DELAYED
from sluicemq.routing.topology import PREDECLARED
from support.thorough import examples

vhosts = st.sampled_from("vw")
names = st.sampled_from("abc")
lives = st.builds(Life, st.integers(0, 1), st.integers(0, 2))
arguments = st.sampled_from([{}, {"x": 1}, {"alternate-exchange": "a"}])
exchanges = st.builds(
    ExchangeDefinition,
    names,
    st.sampled_from(["direct", "fanout", "nonsense"]),
    st.booleans(),
    st.booleans(),
    st.just(value=False),
    arguments,
    vhosts,
) | st.builds(
    ExchangeDefinition,
    names,
    st.just(DELAYED),
    st.booleans(),
    arguments=st.sampled_from([{}, {"x-delayed-type": "direct"}]),
    vhost=vhosts,
)
owned = st.builds(QueueDefinition, names, exclusive=st.just(value=True), owner=names, vhost=vhosts)
queues = owned | st.builds(
    QueueDefinition,
    names | st.just("amq.q"),
    st.booleans(),
    auto_delete=st.booleans(),
    arguments=st.sampled_from([{}, {"x-max-length": 5}, {"x-max-length": -1}]),
    vhost=vhosts,
)
bindings = st.builds(
    BindingDefinition,
    names | st.sampled_from(["", "amq.topic"]),
    names,
    st.sampled_from([QUEUE, EXCHANGE]),
    st.sampled_from("kl"),
    arguments,
    vhosts,
)
limits = st.sampled_from([{}, {MAX_QUEUES: 1}, {MAX_QUEUES: -1}])
records = st.one_of(
    st.builds(VhostDefinition, vhosts, limits=limits),
    st.builds(User, names),
    st.builds(Permission, names, vhosts, names, names, names),
    st.builds(Policy, vhosts, names, st.sampled_from(["a", "(", ""]), priority=st.integers(0, 2)),
    st.builds(Parameter, vhosts, names, names, st.integers(0, 2)),
)
additions = st.one_of(
    records.map(UpsertRecord),
    st.builds(DeclareExchange, exchanges, lives),
    st.builds(DeclareQueue, queues, st.booleans(), life=lives, home=st.integers(0, 2)),
    st.builds(DeclareQueue, queues, st.booleans(), life=lives, home=st.integers(0, 2)),
    bindings.map(Bind),
    bindings.map(Bind),
)
changes: st.SearchStrategy[Change] = st.one_of(
    additions,
    additions,
    additions,
    records.map(lambda each: DeleteRecord(each.KIND, each.key)),
    vhosts.map(CloseVhost),
    st.builds(DeleteExchange, vhosts, names, st.booleans()),
    bindings.map(Unbind),
    st.builds(
        UnbindSome, vhosts, st.sampled_from([SOURCE, QUEUE, EXCHANGE]), names, st.integers(1, 2)
    ),
    st.builds(DeleteQueue, vhosts, names, st.integers(1, 6)),
    st.builds(RenumberQueue, vhosts, names, st.integers(1, 4), st.integers(100, 103)),
    lives.map(NodeStarted),
    lives.map(LifeOver),
    st.lists(additions, max_size=6).map(lambda some: Bootstrap(tuple(some))),
    st.lists(additions, max_size=6).map(lambda some: Together(tuple(some))),
)
BEGINNING = (
    UpsertRecord(VhostDefinition("v")),
    UpsertRecord(VhostDefinition("w")),
    UpsertRecord(User("a")),
)


def verdict(state: DeclaredState, change: Change) -> tuple[str, Applied]:
    """What was said against it, "" for nothing, and what has become of it."""
    try:
        return "", state.apply(change)
    except (ProtocolViolation, Refused) as refused:
        return f"{type(refused).__name__} {refused}", Applied()


def look(state: DeclaredState) -> None:
    """What must hold at any time."""
    assert state.hosts.keys() == state.vhosts.keys()
    for permission in state.permissions.values():
        assert permission.user in state.users
        assert permission.vhost in state.vhosts
    ids: list[int] = []
    for name, host in state.hosts.items():
        topology = host.topology
        assert topology.queues == {key: q.definition.durable for key, q in host.queues.items()}
        everything = topology.all_bindings()
        for binding in everything:
            assert binding.vhost == name
            assert binding.source in topology.exchanges
            there = topology.queues if binding.destination_type == QUEUE else topology.exchanges
            assert binding.destination in there
            assert binding.identity in topology.inbound[binding.target]
        assert sum(map(len, topology.inbound.values())) == len(everything)
        durable = {each.identity for each in everything if topology.is_durable(each)}
        assert topology.durable_bindings.keys() == durable
        assert host.lives.keys() <= topology.exchanges.keys()
        for exchange in topology.exchanges.values():
            definition = exchange.definition
            if definition.type == DELAYED:
                assert host.held_for(definition.name) is not None
        ids += [queue.id for queue in (*host.queues.values(), *host.holding.values())]
    assert len(ids) == len(set(ids))
    assert all(0 < each < state.next_queue_id for each in ids)


@examples(80)
@given(st.lists(changes, max_size=30))
def test_members_that_apply_the_same_changes_are_the_same(some: list[Change]) -> None:
    one, other, late = DeclaredState(), DeclaredState(), DeclaredState()
    for number, change in enumerate((*BEGINNING, *some)):
        before = one.snapshot()
        said, outcome = verdict(one, change)
        [sent], _ = decode(encode(change))
        assert sent == change
        for member in (other, late):
            heard, its = verdict(member, sent)
            assert heard == said
            assert its.durable == outcome.durable
        assert other.snapshot() == late.snapshot() == one.snapshot()
        if said:
            assert one.snapshot() == before, "what is refused changes nothing"
            assert not outcome.events
        look(one)
        if number % 4 == 3:
            late = restored_from_snapshot(one.snapshot())
            assert late.snapshot() == one.snapshot()
            look(late)


@examples(80)
@given(st.lists(changes, max_size=30))
def test_what_the_journal_has_is_what_is_durable(some: list[Change]) -> None:
    """A restart finds the durable part, with bindings in their order, and nothing else."""
    state, journal = DeclaredState(), DurableTables()
    for change in (*BEGINNING, *some):
        revision, encoded = state.revision, state.encode()
        _, outcome = verdict(state, change)
        for fact in outcome.durable:
            journal.apply(encode(fact))
        for event in outcome.events:
            if isinstance(event, QueueRemoved):
                journal.delete_queue(event.queue.id)
        if state.revision == revision:
            assert b"".join(checkpoint_anew(state)) == encoded, "it has changed, and nobody says so"
        kept = DurableTables(state.encode())
        if not outcome_is_pending(change):
            assert facts(kept) == facts(journal), change
        again = restored(kept, state.next_queue_id)
        assert facts(DurableTables(again.encode())) == facts(kept)
        look(again)
        journal = kept if outcome_is_pending(change) else journal


def outcome_is_pending(change: Change) -> bool:
    """The journal hears of the bindings that such a change takes away at the end of what they
    belong to, which need not come here."""
    return isinstance(change, UnbindSome)


def checkpoint_anew(state: DeclaredState) -> list[bytes]:
    state._encoded = (0, b"")
    return [*state.pieces()]


def facts(tables: DurableTables) -> object:
    parts = (tables.exchanges, tables.queues, tables.bindings, *tables.records.values())
    return [sorted(map(repr, each.items())) for each in parts]


def state_with(*some: Change) -> DeclaredState:
    state = DeclaredState()
    for change in (*BEGINNING, *some):
        state.apply(change)
    return state


def queue(name: str, **options: object) -> DeclareQueue:
    return DeclareQueue(QueueDefinition(name, vhost="v", **options))  # type: ignore[arg-type]


@examples(80)
@given(st.lists(changes, max_size=20), st.lists(changes, max_size=20))
def test_a_member_that_gets_a_snapshot_is_what_that_says_and_tells_of_every_difference(
    some: list[Change], more: list[Change]
) -> None:
    """Those who follow have the queues, records and virtual hosts that are there, by what they were
    told; the objects that they hold are the ones that change."""
    state, newer = DeclaredState(), DeclaredState()
    followed: set[object] = set()
    for change in (*BEGINNING, *some):
        for event in verdict(state, change)[1].events:
            follow(followed, event)
    for change in (*BEGINNING, *more):
        verdict(newer, change)
    held = {
        name: (host, host.topology, host.topology.policies) for name, host in state.hosts.items()
    }
    for event in replace_state(state, restored_from_snapshot(newer.snapshot())):
        follow(followed, event)
    assert state.snapshot() == newer.snapshot()
    look(state)
    for name, host in state.hosts.items():
        assert name not in held or held[name] == (host, host.topology, host.topology.policies)
    expected: set[object] = {
        record(each) for some in state.records.values() for each in some.values()
    }
    for host in state.hosts.values():
        expected |= {each.id for each in (*host.queues.values(), *host.holding.values())}
    assert followed == expected
    for each in changes_after(state):
        assert verdict(state, each) == verdict(newer, each)
    assert state.snapshot() == newer.snapshot()


def record(each: DefinitionRecord) -> object:
    return each.KIND, each.key, repr(each)


def follow(followed: set[object], event: Event) -> None:
    """What somebody knows who hears of this, too. A record that goes takes those of its own."""
    if isinstance(event, QueueAdded):
        followed.add(event.queue.id)
    elif isinstance(event, QueueRemoved):
        followed.remove(event.queue.id)
    elif isinstance(event, RecordUpserted | RecordDeleted):
        place = event.record.KIND, event.record.key
        gone = {each for each in followed if isinstance(each, tuple) and each[:2] == place}
        followed -= gone
        if isinstance(event, RecordUpserted):
            followed.add(record(event.record))
        else:
            field = BELONG_TO.get(event.record.KIND, "")
            key = event.record.key
            for each in [each for each in followed if isinstance(each, tuple)]:
                if field and f"{field}={key!r}" in each[2]:
                    followed.discard(each)


def changes_after(state: DeclaredState) -> list[Change]:
    """A change of everything that was taken over."""
    found: list[Change] = [NodeStarted(Life(each, 9)) for each in range(3)]
    for name, host in state.hosts.items():
        found += (DeleteExchange(name, each) for each in host.topology.exchanges)
        found += (DeleteQueue(name, each.definition.name, each.id) for each in host.queues.values())
    return found


def test_one_refusal_takes_all_back_that_was_to_be_made_together() -> None:
    exchange = ExchangeDefinition("x", "direct", True, auto_delete=True, vhost="v")
    state = state_with(DeclareExchange(exchange), queue("q", durable=True))
    before, revision = state.snapshot(), state.revision
    binding = BindingDefinition("x", "q", vhost="v")
    new = (
        UpsertRecord(VhostDefinition("n")),
        UpsertRecord(Policy("n", "p", "a")),
        UpsertRecord(VhostDefinition("v", "described")),
        queue("r", durable=True),
        Bind(binding),
        Bind(BindingDefinition("x", "missing", vhost="v")),
    )
    with pytest.raises(ChannelViolation, match="404"):
        state.apply(Together(new))
    assert (state.snapshot(), state.revision) == (before, revision)
    outcome = state.apply(Together(new[:-1]))
    assert len(outcome.durable) == 5
    assert [type(each).__name__ for each in outcome.events][-1] == "QueueAdded"


def test_only_what_adds_something_can_be_made_together() -> None:
    with pytest.raises(Refused, match="DeleteRecord cannot be made together"):
        state_with().apply(Together((DeleteRecord("user", "a"),)))


def test_a_node_that_starts_loses_what_its_earlier_life_had() -> None:
    """What is durable stays, and what belongs to others."""
    transient = ExchangeDefinition("x", vhost="v")
    state = state_with(
        NodeStarted(Life(1, 1)),
        DeclareQueue(QueueDefinition("mine", vhost="v"), life=Life(1, 1)),
        DeclareQueue(QueueDefinition("kept", durable=True, vhost="v"), life=Life(1, 1)),
        DeclareQueue(QueueDefinition("own", exclusive=True, owner="c", vhost="v"), life=Life(1, 1)),
        DeclareQueue(QueueDefinition("other", vhost="v"), life=Life(2, 1)),
        DeclareExchange(transient, Life(1, 1)),
        Bind(BindingDefinition("x", "kept", vhost="v")),
    )
    outcome = state.apply(NodeStarted(Life(1, 2)))
    gone = [each.queue.definition.name for each in outcome.events if isinstance(each, QueueRemoved)]
    assert gone == ["mine", "own"]
    assert [*state.hosts["v"].queues] == ["kept", "other"]
    assert state.hosts["v"].topology.exchanges.keys() == PREDECLARED.keys()
    assert outcome.durable == []
    with pytest.raises(Refused, match="rolled back"):
        state.apply(NodeStarted(Life(1, 2)))


def test_a_node_that_is_taken_for_dead_loses_what_belongs_to_its_life_and_no_other_one() -> None:
    own = QueueDefinition("own", exclusive=True, owner="c", vhost="v")
    state = state_with(
        NodeStarted(Life(1, 2)),
        DeclareQueue(own, life=Life(1, 2)),
        DeclareQueue(QueueDefinition("other", vhost="v"), life=Life(2, 1)),
    )
    assert state.has_temporary(1, 2)
    assert not state.has_temporary(1, 1)
    assert not state.apply(LifeOver(Life(1, 1))).events, "it has begun another life since"
    [event] = state.apply(LifeOver(Life(1, 2))).events
    assert isinstance(event, QueueRemoved)
    assert event.queue.definition is own
    assert not state.has_temporary(1, 2)


def test_a_cluster_begins_once() -> None:
    state = DeclaredState()
    assert len(state.apply(Bootstrap(BEGINNING)).events) == 3
    assert not state.apply(Bootstrap((UpsertRecord(User("b")),))).events
    assert [*state.users] == ["a"]


def test_refusals_have_rabbitmqs_words() -> None:
    state = state_with(queue("q"), queue("own", exclusive=True, owner="c"))
    wrong: list[tuple[Change, type[Exception], str]] = [
        (Bind(BindingDefinition("x", "q", vhost="v")), ChannelViolation, "404 NOT_FOUND - no exch"),
        (Bind(BindingDefinition("amq.topic", "z", vhost="v")), ChannelViolation, "no queue 'z'"),
        (queue("q", durable=True), ChannelViolation, "406 .* inequivalent arg 'durable'"),
        (queue("own"), ChannelViolation, "405 RESOURCE_LOCKED"),
        (queue("amq.q"), ChannelViolation, "403 .* reserved prefix"),
        (DeleteExchange("v", "amq.topic"), ChannelViolation, "403"),
        (UpsertRecord(Permission("z", "v", "", "", "")), Refused, "user 'z' does not exist"),
        (UpsertRecord(Policy("z", "p", "")), Refused, "virtual host 'z' does not exist"),
        (DeleteRecord("vhost", "v"), Refused, "still has queues"),
    ]
    for change, kind, text in wrong:
        with pytest.raises(kind, match=text):
            state.apply(change)
    state.apply(CloseVhost("v"))
    with pytest.raises(ConnectionViolation, match="320 CONNECTION_FORCED - vhost 'v' is deleted"):
        state.apply(queue("new"))


def test_a_queue_stays_where_it_was_declared_first() -> None:
    """In the journal and in another member's snapshot, too."""
    first = DeclareQueue(QueueDefinition("q", durable=True, vhost="v"), home=2, members=(2, 3))
    state = state_with()
    [recorded] = state.apply(first).durable
    assert recorded == replace(first, queue_id=1, born=(2, 3))
    assert not state.apply(replace(first, home=3)).events
    again = restored_from_snapshot(state.snapshot())
    queue = again.hosts["v"].queues["q"]
    assert (queue.home, queue.members) == (2, (2, 3))
    assert again.encode() == state.encode()


def test_a_queue_has_room_or_not() -> None:
    state = state_with(UpsertRecord(VhostDefinition("v", limits={MAX_QUEUES: 1})), queue("q"))
    with pytest.raises(ChannelViolation, match=r"queue limit in vhost 'v' \(1\) is reached"):
        state.apply(queue("r"))
    assert not state.apply(queue("q")).events, "it is there already"


def test_encoding_is_kept_until_something_durable_changes() -> None:
    state = state_with(queue("q", durable=True))
    first = state.encode()
    assert state.encode() is first
    state.apply(queue("transient"))
    assert state.encode() is first
    [added] = state.apply(queue("r", durable=True)).events
    assert state.encode() != first
    assert isinstance(added, QueueAdded)
    state.apply(DeleteQueue("v", "r", added.queue.id))
    assert state.encode() == first


def test_pieces_are_of_one_moment() -> None:
    state = state_with()
    for number in range(100):
        state.apply(queue(f"q{number}", durable=True))
        state.apply(DeclareExchange(ExchangeDefinition(f"x{number}", "topic", True, vhost="v")))
    expected = state.encode()
    state.apply(queue("new", durable=True))
    state.apply(DeleteQueue("v", "new", state.hosts["v"].queues["new"].id))
    now = state.pieces()
    pieces = [next(now)]
    state.apply(DeleteQueue("v", "q99", state.hosts["v"].queues["q99"].id))
    pieces += now
    assert len(pieces) > 10
    assert max(piece.count(b"vhost") for piece in pieces) < 50
    assert b"".join(pieces) == expected
    assert state.encode() != expected, "what was not of the moment is not kept"


def test_a_life_is_not_spent_on_a_node_that_is_alone() -> None:
    state = state_with(DeclareExchange(ExchangeDefinition("x", vhost="v")))
    assert state.hosts["v"].lives == {}
    assert b'"life"' not in encode(queue("q"))
    assert Life(0, 0) == ONLY_LIFE


def test_an_exchange_does_not_use_the_queue_of_an_earlier_one_that_goes() -> None:
    declare = DeclareExchange(
        ExchangeDefinition("d", DELAYED, True, arguments={"x-delayed-type": "direct"}, vhost="v")
    )
    state = state_with(declare)
    host = state.hosts["v"]
    [before] = host.holding
    state.apply(DeleteExchange("v", "d", if_unused=False))
    state.apply(declare)
    found = host.held_for("d")
    assert found is not None
    assert found.id != before
    state.apply(DeleteQueue("v", found.definition.name, before))
    assert [*host.holding] == [found.id]
