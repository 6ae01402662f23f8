"""Policies: settings for all queues and exchanges of a virtual host whose names match a pattern.

Of the policies that match, the one with the highest priority applies; of equal ones the first by
name. One operator policy may apply beside it; where both set a limit, the smaller one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import field

from sluicemq.errors import Refused
from sluicemq.model.patterns import Pattern
from sluicemq.model.policy_keys import OPERATOR_KEYS, check_definition, check_values
from sluicemq.model.policy_scopes import ALL, APPLY_TO, EXCHANGES, QUEUES
from sluicemq.model.queue_types import TYPES
from sluicemq.model.record import DefinitionRecord
from sluicemq.model.terms import term

PRIORITY_MAX: Final = (1 << 63) - 1


class Policy(DefinitionRecord, frozen=True):
    """Settings (`definition`) for the queues and exchanges of a virtual host whose names match
    `pattern`, as far as `apply_to` includes them."""

    KIND: ClassVar[str] = "policy"
    TABLE: ClassVar[str] = "policies"
    IS_OPERATOR: ClassVar[bool] = False

    vhost: str
    name: str
    pattern: str
    apply_to: str = ALL
    definition: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.vhost, self.name

    def check(self) -> None:
        """Raise Refused, in RabbitMQ's words, when the policy makes no sense."""
        if type(self.priority) is not int or abs(self.priority) > PRIORITY_MAX:
            raise Refused(f"priority should be a number, actually was {term(self.priority)}")
        Pattern(self.pattern)
        if self.apply_to not in APPLY_TO:
            raise Refused(
                f"apply-to '{self.apply_to}' unrecognised; should be one of {', '.join(APPLY_TO)}"
            )
        check_definition(self.definition, self.IS_OPERATOR)


class OperatorPolicy(Policy, frozen=True):
    """A policy of the operator's: limits that clients cannot exceed."""

    KIND: ClassVar[str] = "operator_policy"
    TABLE: ClassVar[str] = "operator_policies"
    IS_OPERATOR: ClassVar[bool] = True


class EffectivePolicy(NamedTuple):
    """The settings that apply to one queue, and the names of the policies they come from, None
    where there is no such policy."""

    name: str | None
    operator_name: str | None
    definition: Mapping[str, Any]


class Matcher:
    """A policy together with its compiled pattern."""

    __slots__ = ("pattern", "policy")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.pattern = Pattern(policy.pattern)


class Policies:
    """The policies and operator policies of one virtual host, and what applies to a queue or an
    exchange by them."""

    def __init__(self) -> None:
        self._of_kind: dict[str, dict[str, Matcher]] = {Policy.KIND: {}, OperatorPolicy.KIND: {}}
        self._merged: dict[tuple[str | None, str | None], EffectivePolicy] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of_kind.values()))

    def become(self, other: Policies) -> None:
        """Take over the policies of `other`, which is not used any more."""
        self._of_kind = other._of_kind
        self._merged = {}

    def upsert(self, policy: Policy) -> None:
        """Add or change a policy. Raises Refused, and changes nothing, when its pattern or its
        values cannot be used here."""
        check_values(policy.definition)
        matchers = self._of_kind[policy.KIND]
        matchers[policy.name] = Matcher(policy)
        by_rank = sorted(matchers.values(), key=lambda each: rank(each.policy))
        self._of_kind[policy.KIND] = {each.policy.name: each for each in by_rank}
        self._merged = {}

    def delete(self, kind: str, name: str) -> None:
        """Delete a policy of that kind (`KIND` of its class), if there is one of that name."""
        self._of_kind[kind].pop(name, None)
        self._merged = {}

    def all_of(self, kind: str) -> list[Policy]:
        """Return the policies of that kind (`KIND` of their class), those that go before others
        first."""
        return [each.policy for each in self._of_kind[kind].values()]

    def for_queue(self, name: str, kind: str) -> EffectivePolicy | None:
        """Return the settings for a queue of the type `kind`: the same object for the same
        policies, None when no policy matches."""
        row = TYPES[kind]
        scopes = (ALL, QUEUES, row.scope)
        unfit = row.unfit_policy_keys
        policy = self._first(Policy.KIND, name, scopes, unfit)
        operator = self._first(OperatorPolicy.KIND, name, scopes, unfit)
        if policy is None and operator is None:
            return None
        names = (
            None if policy is None else policy.name,
            None if operator is None else operator.name,
        )
        found = self._merged.get(names)
        if found is None:
            found = self._merged[names] = EffectivePolicy(*names, merged(policy, operator))
        return found

    def for_exchange(self, name: str) -> Policy | None:
        """Return the policy that applies to an exchange; None when none matches."""
        return self._first(Policy.KIND, name, (ALL, EXCHANGES), ())

    def spent(self) -> Iterable[Policy]:
        """Yield the policies whose patterns took too long too often, and match nothing any more."""
        for matchers in self._of_kind.values():
            yield from (each.policy for each in matchers.values() if each.pattern.spent)

    def _first(
        self, kind: str, name: str, scopes: tuple[str, ...], unfit: tuple[str, ...]
    ) -> Policy | None:
        for each in self._of_kind[kind].values():
            policy = each.policy
            fits = policy.apply_to in scopes and policy.definition.keys().isdisjoint(unfit)
            if fits and each.pattern.matches(name):
                return policy
        return None


def rank(policy: Policy) -> tuple[int, str]:
    """Return the key that policies are sorted by; of those that match, the one with the lowest
    value applies."""
    return -policy.priority, policy.name


def merged(policy: Policy | None, operator: Policy | None) -> dict[str, Any]:
    """Return all settings of both policies, either of which may be None. An operator policy only
    sets limits: where both set one, the smaller one applies."""
    definition = dict(policy.definition) if policy is not None else {}
    limits = operator.definition if operator is not None else {}
    for key in OPERATOR_KEYS:
        if key in limits:
            definition[key] = min(limits[key], definition.get(key, limits[key]))
    return definition
