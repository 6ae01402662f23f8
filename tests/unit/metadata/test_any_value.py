"""Goal: whatever stands in a field of what was kept is refused as it is read, or breaks nothing.

Method: one of each change and each row of a checkpoint, as bytes; hypothesis puts any JSON value in
the place of a field, takes one away or adds one. What is not Corrupt has to be written as it was
read, and the state that begins with it has to answer what a broker asks of it.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt, ProtocolViolation, Refused
from sluicemq.metadata.changes import (
    SOURCE,
    AddMember,
    Bind,
    Change,
    CloseVhost,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteRecord,
    Life,
    MemberLeft,
    MoveLeader,
    NodeStarted,
    RemoveMember,
    RenumberQueue,
    Unbind,
    UnbindSome,
    UpsertRecord,
)
from sluicemq.metadata.codec import as_json, decode, encode
from sluicemq.metadata.restoring import restored, restored_from_snapshot
from sluicemq.metadata.state import DeclaredState
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from sluicemq.model.parameters import GlobalParameter, Parameter
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.policies import OperatorPolicy, Policy
from sluicemq.model.policy_scopes import QUEUES
from sluicemq.model.queue_types import CLASSIC
from sluicemq.model.users import IMPERSONATOR, User, password_fits
from sluicemq.model.vhosts import MAX_CHANNELS, MAX_QUEUES, VhostDefinition, limit_of
from support.thorough import examples

RECORD: Final = (
    VhostDefinition("v", "text", ("tag",), CLASSIC, {MAX_QUEUES: 5}),
    User("u", "", "rabbit_password_hashing_sha256", ("monitoring",), {MAX_CHANNELS: 2}),
    Permission("u", "v", ".*", ".*", ".*"),
    TopicPermission("u", "v", "x", ".*", "{vhost}"),
    Policy("v", "p", "^q", QUEUES, {"max-length": 5}, 1),
    OperatorPolicy("v", "p", "^q", QUEUES, {"max-length": 4}, 1),
    Parameter("v", "c", "n", {"any": [1]}),
    GlobalParameter("n", {"any": [1]}),
)
DECLARED: Final[tuple[Change, ...]] = (
    DeclareExchange(ExchangeDefinition("x", "topic", True, vhost="v"), Life(1, 2)),
    DeclareQueue(
        QueueDefinition("q", True, arguments={"x-max-length": 5}, vhost="v"),
        is_free=True,
        queue_id=1,
        life=Life(1, 2),
        home=2,
        members=(2, 1, 3),
    ),
    Bind(BindingDefinition("x", "q", "queue", "k", vhost="v")),
)
OTHERS: Final[tuple[Change, ...]] = (
    Unbind(BindingDefinition("x", "q", "queue", "k", vhost="v")),
    DeleteExchange("v", "x"),
    DeleteExchange("v", "x", if_unused=True),
    *(DeleteRecord(each.KIND, each.key) for each in RECORD),
    CloseVhost("v"),
    UnbindSome("v", SOURCE, "x", 3),
    DeleteQueue("v", "q", 1),
    RenumberQueue("v", "q", 1, 2),
    AddMember("v", "q", 1, 4),
    RemoveMember("v", "q", 1, 3),
    MemberLeft("v", "q", 1, 3),
    MoveLeader("v", "q", 1, 1),
    NodeStarted(Life(1, 3)),
)
QUEUE: Final = {"id": 1, "name": "q", "vhost": "v", "auto_delete": False, "arguments": "AAAAAA=="}
U64: Final = Struct("<Q")
WHOLE: Final = (*map(UpsertRecord, RECORD), *DECLARED)
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 1 << 63, 1 << 64, "", "v", "q", "x", "\ud800", "stream", "("])
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def tables_of(*changes: Change) -> DurableTables:
    tables = DurableTables()
    for change in changes:
        tables.apply(encode(change))
    return tables


@st.composite
def broken(draw: st.DrawFn, changes: tuple[Change, ...]) -> tuple[str, Any]:
    """One of these changes as JSON, with something else in one place."""
    [(kind, value)] = as_json(draw(st.sampled_from(changes))).items()
    value = json.loads(json.dumps(value))
    other = draw(VALUES)
    if isinstance(value, dict) and draw(st.integers(0, 9)):
        name = draw(st.sampled_from([*value, "strange"]))
        inner = value.get(name)
        if draw(st.booleans()) and isinstance(inner, dict) and inner:
            inner[draw(st.sampled_from([*inner]))] = other
        elif draw(st.integers(0, 9)):
            value[name] = other
        else:
            value.pop(name, None)
    elif isinstance(value, list) and draw(st.integers(0, 9)):
        value[draw(st.integers(0, len(value) - 1))] = other
    else:
        value = other
    return kind, value


@examples(150)
@given(broken(WHOLE))
def test_what_can_be_read_can_be_used(change: tuple[str, Any]) -> None:
    kind, value = change
    tables = tables_of(*WHOLE)
    try:
        tables.apply(json.dumps({kind: value}).encode())
        kept = tables.encode()
        state = restored(tables, 1)
    except Corrupt:
        return
    assert DurableTables(kept).encode() == kept
    use(state)


@examples(100)
@given(broken((*WHOLE, *OTHERS)))
def test_any_change_of_a_log_is_corrupt_refused_or_applied(change: tuple[str, Any]) -> None:
    """Members of a cluster read what others have written."""
    kind, value = change
    state = restored(tables_of(*WHOLE), 1)
    try:
        changes, _ = decode(json.dumps({kind: value}).encode())
        for each in changes:
            assert decode(encode(each))[0] == [each]
            state.apply(each)
    except (Corrupt, Refused, ProtocolViolation):
        return
    use(state)


@examples(100)
@given(st.data())
def test_any_snapshot_is_corrupt_or_can_be_used(data: st.DataObject) -> None:
    everything = json.loads(restored(tables_of(*WHOLE), 1).snapshot())
    where: Any = everything
    while isinstance(where, dict | list) and where:
        key = data.draw(st.sampled_from([*where] if isinstance(where, dict) else [0]))
        inner = where[key]
        if not isinstance(inner, dict | list) or not inner or not data.draw(st.integers(0, 3)):
            where[key] = data.draw(VALUES)
            break
        where = inner
    try:
        state = restored_from_snapshot(json.dumps(everything).encode())
    except Corrupt:
        return
    use(state)


@pytest.mark.parametrize(
    ("name", "value"),
    [("next_queue_id", 1 << 64), ("incarnations", [[1, "x"]]), ("closed", [["v"]])],
)
def test_a_snapshots_numbers_and_names_are_checked(name: str, value: object) -> None:
    everything = json.loads(restored(tables_of(*WHOLE), 1).snapshot())
    with pytest.raises(Corrupt, match="Expected"):
        restored_from_snapshot(json.dumps({**everything, name: value}).encode())


def use(state: DeclaredState) -> None:
    """Do with it what a broker does."""
    state.encode()
    assert restored_from_snapshot(state.snapshot()).snapshot() == state.snapshot()
    U64.pack(state.next_queue_id)
    for user in state.users.values():
        password_fits(user, "secret")
        limit_of(user.limits, MAX_CHANNELS)
        assert IMPERSONATOR not in user.tags
    for vhost in state.vhosts.values():
        limit_of(vhost.limits, MAX_QUEUES)
    for host in state.hosts.values():
        topology = host.topology
        for name in ("q", "x"):
            topology.policies.for_queue(name, CLASSIC)
            topology.policies.for_exchange(name)
        topology.all_bindings()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"user": {"name": "u", "limits": "x"}}, "limits"),
        ({"user": {"name": "u", "password_hash": 5}}, "password_hash"),
        ({"policy": {"vhost": "v", "name": "p", "pattern": 5}}, "pattern"),
        ({"policy": {"vhost": "v", "name": "p", "pattern": "", "priority": "1"}}, "priority"),
        ({"vhost": {"name": "v", "limits": {"max-queues": "5"}}}, "limits"),
        ({"vhost": {"name": "v", "colour": "red"}}, "colour"),
        ({"user_deleted": [["u"]]}, "str"),
        ({"exchange_deleted": ["v"]}, "length 2"),
        ({"queue": {**QUEUE, "id": 1 << 64}}, "id"),
        ({"queue": {**QUEUE, "id": -1}}, "id"),
        ({"queue": {**QUEUE, "name": 5}}, "name"),
        ({"queue": {**QUEUE, "arguments": 5}}, "arguments"),
        ({"queue": {**QUEUE, "colour": "red"}}, "colour"),
    ],
)
def test_a_refusal_names_the_field(change: dict[str, Any], where: str) -> None:
    with pytest.raises(Corrupt, match=where):
        DurableTables().apply(json.dumps(change).encode())


def test_a_hash_that_is_none_lets_nobody_in() -> None:
    for user in (User("u", "a"), User("u", "\ud800"), User("u", "AAAA", "unheard of")):
        assert not password_fits(user, "")
        assert not password_fits(user, "secret")


def test_a_policy_that_says_nonsense_does_not_hold_and_is_told() -> None:
    """It is kept, for another version may make sense of it."""
    tables = tables_of(
        UpsertRecord(VhostDefinition("v")),
        UpsertRecord(Policy("v", "p", "", definition={"max-length": "x", "other": 1})),
        UpsertRecord(OperatorPolicy("v", "p", "", definition={"max-length": 5, "other": "x"})),
    )
    state = restored(tables, 1)
    assert [*state.policies] == [("v", "p")]
    found = state.hosts["v"].topology.policies.for_queue("q", CLASSIC)
    assert found is not None
    assert (found.name, found.definition) == (None, {"max-length": 5})
    assert "max" in state.problems[0]


def test_what_lies_nowhere_is_corrupt() -> None:
    exchange = DeclareExchange(ExchangeDefinition("x", durable=True, vhost="nowhere"))
    with pytest.raises(Corrupt, match="do not fit together"):
        restored(tables_of(exchange), 1)


def test_two_queues_of_one_name_are_corrupt() -> None:
    queues = [
        DeclareQueue(QueueDefinition("q", durable=True, vhost="v"), queue_id=n) for n in (1, 2)
    ]
    with pytest.raises(Corrupt, match="two queues 'q'"):
        restored(tables_of(UpsertRecord(VhostDefinition("v")), *queues), 1)
