"""Goal: of all policies the right one holds, and it says what RabbitMQ would have it say.

Method: RabbitMQ's own answers for keys and values; for matching and merging, a second and slower
way to find the answer, over policies of all sorts.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.model.policies import OperatorPolicy, Policies, Policy, merged
from sluicemq.model.policy_keys import OPERATOR_KEYS, check_definition
from sluicemq.model.policy_scopes import ALL, EXCHANGES, QUEUES


def refusal(definition: object, operator: bool = False) -> str:
    with pytest.raises(Refused) as refused:
        check_definition(definition, operator)
    return str(refused.value)


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({}, "no policy provided"),
        ([], "a policy's definition must be a JSON object"),
        ({"max-lengths": 1}, '[{<<"max-lengths">>,1}] are not recognised policy settings'),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "1"}, '<<"1">> is not a valid message TTL'),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": 1.5}, "1.5 is not a valid maximum length"),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
        ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
        ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
        ({"queue-mode": 1}, "1 is not a valid queue-mode value"),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"max-age": "0s"}, '<<"0s">> is not a valid max age'),
        ({"max-age": 5}, "5 is not a valid max age"),
        (
            {"stream-max-segment-size-bytes": 5_000_000_000},
            "5000000000 is not a valid segment size",
        ),
        ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
        ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
        ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
        ({"ha-mode": "x"}, '<<"x">> is not a valid ha-mode value'),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        (
            {"ha-mode": "exactly", "ha-params": 0},
            'ha-mode="exactly" takes an integer, 0 given',
        ),
        (
            {"ha-sync-mode": "automatic"},
            "ha-mode must be specified to specify ha-params, ha-sync-mode or "
            "ha-promote-on-shutdown",
        ),
        (
            {"ha-mode": "all", "ha-sync-mode": "x"},
            'ha-sync-mode must be "manual" or "automatic", got <<"x">>',
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_rabbitmqs_words(definition: object, said: str) -> None:
    assert refusal(definition) == said


@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": 0, "expires": 1, "max-length": 0, "max-length-bytes": 0},
        {"dead-letter-exchange": "", "dead-letter-routing-key": ""},
        {"overflow": "reject-publish-dlx", "queue-mode": "lazy", "queue-version": 2},
        {"max-age": "5Y", "stream-max-segment-size-bytes": 0},
        {"ha-mode": "nodes", "ha-params": ["a@b"], "ha-sync-batch-size": 1},
        {"ha-mode": "exactly", "ha-params": 2, "ha-promote-on-failure": "when-synced"},
    ],
)
def test_what_rabbitmq_takes_is_taken(definition: dict[str, Any]) -> None:
    check_definition(definition, operator=False)


def test_an_operator_policy_says_limits_only() -> None:
    for key in OPERATOR_KEYS:
        check_definition({key: 1}, operator=True)
    said = refusal({"dead-letter-exchange": "x"}, operator=True)
    assert said == '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'


def test_the_rest_of_a_policy_is_checked_too() -> None:
    Policy("/", "n", "^(?!amq)", "streams", {"max-age": "1D"}, -3).check()
    for wrong in (
        Policy("/", "n", "(", ALL, {"max-length": 1}),
        Policy("/", "n", "a", "foo", {"max-length": 1}),
        Policy("/", "n", "a", ALL, {"max-length": 1}, True),
        Policy("/", "n", "a", ALL, {}),
    ):
        with pytest.raises(Refused):
            wrong.check()


LIMITS = st.dictionaries(
    st.sampled_from(("max-length", "message-ttl", "expires")), st.integers(1, 9), min_size=1
)
KINDS = ("classic", "quorum", "stream")


@st.composite
def policy(draw: st.DrawFn, kind: type[Policy]) -> Policy:
    definition: dict[str, Any] = draw(LIMITS)
    if kind is Policy and draw(st.booleans()):
        definition["overflow"] = "reject-publish"
    return kind(
        "/",
        draw(st.sampled_from("abcdef")),
        draw(st.sampled_from(("", "^a", "b$", "^ab$", "x"))),
        draw(st.sampled_from((ALL, QUEUES, EXCHANGES, "classic_queues", "streams"))),
        definition,
        draw(st.integers(-1, 2)),
    )


def best(policies: list[Policy], name: str, scopes: tuple[str, ...]) -> Policy | None:
    """The highest priority, the first name: by sorting those that match."""
    fit = [p for p in policies if p.apply_to in scopes and re.search(p.pattern, name)]
    return min(fit, key=lambda each: (-each.priority, each.name), default=None)


@given(
    st.lists(st.one_of(policy(Policy), policy(OperatorPolicy)), max_size=12),
    st.sampled_from(("a", "b", "ab", "ba", "")),
    st.sampled_from(KINDS),
)
def test_one_policy_and_one_operator_policy_hold(
    given_policies: list[Policy], name: str, kind: str
) -> None:
    policies = Policies()
    last: dict[tuple[str, str], Policy] = {}
    for each in given_policies:
        policies.upsert(each)
        last[each.KIND, each.name] = each
    scopes = (ALL, QUEUES, {"classic": "classic_queues", "stream": "streams"}.get(kind, QUEUES))
    ordinary = [each for each in last.values() if type(each) is Policy]
    operators = [each for each in last.values() if type(each) is OperatorPolicy]
    found = policies.for_queue(name, kind)
    if kind != "stream":  # most limits make a policy unfit for streams
        mine, theirs = best(ordinary, name, scopes), best(operators, name, scopes)
        assert (found.name if found else None) == (mine.name if mine else None)
        assert (found.operator_name if found else None) == (theirs.name if theirs else None)
    assert policies.for_exchange(name) == best(ordinary, name, (ALL, EXCHANGES))
    assert policies.for_queue(name, kind) is found


@given(LIMITS, LIMITS)
def test_of_two_limits_the_smaller_one_holds(mine: dict[str, int], theirs: dict[str, int]) -> None:
    both = merged(Policy("/", "a", "", ALL, mine), OperatorPolicy("/", "b", "", ALL, theirs))
    assert both.keys() == mine.keys() | theirs.keys()
    for key, limit in both.items():
        assert limit == min(one[key] for one in (mine, theirs) if key in one)


def test_a_policy_without_meaning_for_a_type_leaves_the_place_to_the_next() -> None:
    policies = Policies()
    policies.upsert(Policy("/", "ages", "", ALL, {"max-age": "1D", "max-length-bytes": 1}, 2))
    policies.upsert(Policy("/", "lazy", "", ALL, {"queue-mode": "lazy"}, 1))
    policies.upsert(Policy("/", "short", "", ALL, {"max-length": 5}, 0))
    held = {kind: policies.for_queue("q", kind) for kind in KINDS}
    names = {kind: found.name for kind, found in held.items() if found is not None}
    assert names == {"classic": "lazy", "quorum": "short", "stream": "ages"}


def test_what_is_dropped_or_replaced_holds_no_more() -> None:
    policies = Policies()
    policies.upsert(Policy("/", "a", "", ALL, {"max-length": 5}, 1))
    policies.upsert(Policy("/", "b", "", ALL, {"max-length": 6}))
    policies.upsert(Policy("/", "a", "", ALL, {"max-length": 7}, -1))
    found = policies.for_queue("q", "classic")
    assert found is not None
    assert (found.name, found.definition) == ("b", {"max-length": 6})
    policies.delete(Policy.KIND, "b")
    found = policies.for_queue("q", "classic")
    assert found is not None
    assert (found.name, found.definition) == ("a", {"max-length": 7})
    policies.delete(Policy.KIND, "a")
    assert policies.for_queue("q", "classic") is None
