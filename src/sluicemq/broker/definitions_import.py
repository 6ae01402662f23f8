"""Import of definitions, all or nothing: the planner checks that all of them can be made, and then
they are made and recorded as one change of the journal, so that a crash leaves all of them or none.

Users, permissions, policies and parameters that exist are replaced; exchanges and queues that exist
must equal those of the document. Nothing is deleted. Bindings with an end that does not exist are
left out, as RabbitMQ does, and reported.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from sluicemq.errors import ChannelViolation, ProtocolViolation
from sluicemq.metadata.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    Together,
    UpsertRecord,
)
from sluicemq.model.definitions import check_equivalent_queue, validate_queue
from sluicemq.model.document import DefinitionsRefused
from sluicemq.model.document_fields import Errors
from sluicemq.model.passwords import SALT_BYTES, hash_password
from sluicemq.model.record import DefinitionRecord
from sluicemq.model.reply_address import PSEUDO_QUEUE
from sluicemq.model.users import User
from sluicemq.model.vhosts import MAX_QUEUES, VhostDefinition, limit_of
from sluicemq.routing.delayed import is_holding
from sluicemq.routing.topology import TYPES, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluicemq.broker.broker import Broker
    from sluicemq.kernel.world import Dice
    from sluicemq.model.definitions import (
        BindingDefinition,
        ExchangeDefinition,
        QueueDefinition,
    )
    from sluicemq.model.document import Definitions
    from sluicemq.model.parameters import Parameter
    from sluicemq.model.permissions import Permission, TopicPermission
    from sluicemq.model.policies import Policy

R = TypeVar("R", bound=DefinitionRecord)
NOT_FOUND: Final = 404
ADDED: Final = "added"
CHANGED: Final = "changed"


@dataclass(slots=True)
class Plan:
    """What an import will do: only additions and changes. `left_out` has bindings that will not be
    made."""

    vhosts: list[VhostDefinition] = field(default_factory=list)
    accounts: list[DefinitionRecord] = field(default_factory=list)
    parameters: list[DefinitionRecord] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    exchanges: list[ExchangeDefinition] = field(default_factory=list)
    queues: list[QueueDefinition] = field(default_factory=list)
    bindings: list[BindingDefinition] = field(default_factory=list)
    left_out: list[tuple[BindingDefinition, str]] = field(default_factory=list)
    """What of the document is not imported, and why."""
    passwords: dict[str, str] = field(default_factory=dict)

    @property
    def records(self) -> Iterator[DefinitionRecord]:
        yield from self.vhosts
        yield from self.accounts
        yield from self.parameters
        yield from self.policies


class Planner:
    """Compares a document with what exists, and plans the changes. `errors` has the errors found so
    far, each with its place."""

    def __init__(self, broker: Broker, wanted: Definitions) -> None:
        self.broker = broker
        self.wanted = wanted
        self.errors = Errors()
        self.plan = Plan(passwords=wanted.passwords)
        self.vhosts = dict(broker.definitions.vhosts)
        self.users = {*broker.definitions.users, *(each.name for each in wanted.users)}
        self.trials: dict[str, Topology] = {}
        self.new_queues: dict[tuple[str, str], QueueDefinition] = {}

    def run(self) -> Plan:
        """Return what the import will do. Raises DefinitionsRefused, which names every error in the
        document."""
        wanted = self.wanted
        self.look_at_vhosts()
        self.look_at_users()
        self.look_at_policies()
        for index, exchange in enumerate(wanted.exchanges):
            look = partial(self.look_at_exchange, exchange)
            self.attempt(f"exchanges[{index}]", exchange.vhost, look)
        for index, queue in enumerate(wanted.queues):
            self.attempt(f"queues[{index}]", queue.vhost, partial(self.look_at_queue, queue))
        for index, binding in enumerate(wanted.bindings):
            look = partial(self.look_at_binding, binding)
            self.attempt(f"bindings[{index}]", binding.vhost, look)
        self.count_queues()
        if self.errors:
            raise DefinitionsRefused(self.errors)
        return self.plan

    def attempt(self, place: str, vhost: str, look: Callable[[], None]) -> None:
        """Call `look` if the virtual host exists. A violation that it raises is noted as an error
        of the document, at `place`."""
        if self.knows_vhost(place, vhost):
            try:
                look()
            except ProtocolViolation as violation:
                self.errors.note(place, violation.reply_text)

    def knows_vhost(self, place: str, name: str) -> bool:
        """Tell whether the virtual host exists, or will, and is not about to be deleted. If not,
        that is noted at `place`."""
        there = self.broker.vhosts.get(name)
        if name not in self.vhosts:
            self.errors.note(place, f"virtual host '{name}' does not exist")
        elif there is not None and not there.is_open:
            self.errors.note(place, f"virtual host '{name}' is being deleted")
        else:
            return True
        return False

    def look_at_vhosts(self) -> None:
        """Plan the virtual hosts of the document that are new or differ, and new limits for
        existing ones. Noted as errors: those that are being deleted, and limits for ones that do
        not exist."""
        for each in self.wanted.vhosts:
            known = self.vhosts.get(each.name)
            if known is not None and not each.limits:
                each = replace(each, limits=known.limits)  # they come as parameters, or not at all
            self.vhosts[each.name] = each
        for index, (name, limits) in enumerate(self.wanted.limits.items()):
            if self.knows_vhost(f"limits of virtual hosts[{index}]", name):
                known = self.vhosts[name]
                self.vhosts[name] = replace(known, limits={**known.limits, **limits})
        kept = self.broker.definitions.vhosts
        self.plan.vhosts = [each for each in self.vhosts.values() if each != kept.get(each.name)]
        for index, each in enumerate(self.wanted.vhosts):
            self.knows_vhost(f"vhosts[{index}]", each.name)

    def is_new(self, record: DefinitionRecord) -> bool:
        """Tell whether a record does not exist yet, or differs from the existing one."""
        return record != self.broker.definitions.records[record.KIND].get(record.key)

    def look_at_users(self) -> None:
        """Plan users and their permissions that are new or differ. Permissions of users or in
        virtual hosts that do not exist are noted as errors."""
        wanted = self.wanted
        plan = self.plan.accounts
        for each in last_of(wanted.users):
            if self.is_new(each) or each.key in wanted.passwords:
                plan.append(each)
        sections: tuple[tuple[str, Sequence[Permission | TopicPermission]], ...] = (
            ("permissions", wanted.permissions),
            ("topic_permissions", wanted.topic_permissions),
        )
        for section, permissions in sections:
            for index, permission in enumerate(permissions):
                self.knows_vhost(f"{section}[{index}]", permission.vhost)
                if permission.user not in self.users:
                    text = f"user '{permission.user}' does not exist"
                    self.errors.note(f"{section}[{index}]", text)
            plan.extend(filter(self.is_new, last_of(permissions)))

    def look_at_policies(self) -> None:
        """Plan policies, operator policies and parameters that are new or differ. Those in virtual
        hosts that do not exist are noted as errors."""
        wanted = self.wanted
        sections: tuple[tuple[str, Sequence[Policy | Parameter]], ...] = (
            ("policies", wanted.policies),
            ("operator policies", wanted.operator_policies),
            ("parameters", wanted.parameters),
        )
        for section, records in sections:
            for index, record in enumerate(records):
                self.knows_vhost(f"{section}[{index}]", record.vhost)
        policies: list[Policy] = [*wanted.policies, *wanted.operator_policies]
        self.plan.policies = [*filter(self.is_new, last_of(policies))]
        parameters: list[DefinitionRecord] = [*wanted.parameters, *wanted.global_parameters]
        self.plan.parameters = [*filter(self.is_new, last_of(parameters))]

    def trial(self, vhost: str) -> Topology:
        """Return a copy of a virtual host's exchanges and queues without their bindings, made on
        first use. If the document's definitions can be declared there one by one, they can be
        declared in the virtual host."""
        topology = self.trials.get(vhost)
        if topology is None:
            topology = self.trials[vhost] = Topology(vhost)
            there = self.broker.vhosts.get(vhost)
            if there is not None:
                topology.queues.update(there.topology.queues)
                for name, exchange in there.topology.exchanges.items():
                    definition = exchange.definition
                    topology.exchanges[name] = TYPES[definition.type](definition)
        return topology

    def look_at_exchange(self, asked: ExchangeDefinition) -> None:
        if self.trial(asked.vhost).declare_exchange(asked):
            self.plan.exchanges.append(asked)

    def look_at_queue(self, asked: QueueDefinition) -> None:
        """Plan a queue if it is new. Raises ChannelViolation when its arguments make no sense, or
        when it differs from the existing one. Names with a reserved prefix are allowed, because the
        broker may have given them to durable queues."""
        key = asked.vhost, asked.name
        vhost = self.broker.vhosts.get(asked.vhost)
        there = vhost.queues.get(asked.name) if vhost is not None else None
        known = there.definition if there is not None else self.new_queues.get(key)
        if known is not None:
            check_equivalent_queue(known, asked, asked.vhost)
        elif asked.name.startswith(PSEUDO_QUEUE) or is_holding(asked.name):
            self.errors.note(f"queue '{asked.name}'", "the name is the broker's own")
        else:
            validate_queue(asked, asked.vhost)
            self.new_queues[key] = asked
            self.trial(asked.vhost).add_queue(asked.name)
            self.plan.queues.append(asked)

    def look_at_binding(self, asked: BindingDefinition) -> None:
        """Plan a binding if it is new. One with an end that does not exist is left out: RabbitMQ
        exports bindings of things that it does not export, such as internal exchanges. Raises
        ChannelViolation when it cannot be made for another reason."""
        try:
            new = self.trial(asked.vhost).bind(asked)
        except ChannelViolation as violation:
            if violation.code != NOT_FOUND:
                raise
            self.plan.left_out.append((asked, violation.reply_text))
            return
        vhost = self.broker.vhosts.get(asked.vhost)
        source = vhost.topology.exchanges.get(asked.source) if vhost is not None else None
        if new and (source is None or asked.identity not in source.bindings):
            self.plan.bindings.append(asked)

    def count_queues(self) -> None:
        """Note an error for each virtual host that would have more queues than its limit allows."""
        for name, count in Counter(vhost for vhost, _ in self.new_queues).items():
            most = limit_of(self.vhosts[name].limits, MAX_QUEUES)
            vhost = self.broker.vhosts.get(name)
            total = count + (len(vhost.queues) if vhost is not None else 0)
            if most is not None and total > most:
                text = f"{total} in virtual host '{name}', where {most} are allowed"
                self.errors.note("queues", text)


def last_of(records: Iterable[R]) -> Iterable[R]:
    """Return the last of the records of each kind and key, in the order of the first ones."""
    return {(each.KIND, each.key): each for each in records}.values()


def change_of(plan: Plan, dice: Dice) -> Together:
    """Return one change that does everything planned. Nothing in it can be refused as long as the
    definitions are still those that the planner saw. `dice` makes the salts of passwords."""
    changes: list[Change] = [UpsertRecord(each) for each in plan.vhosts]
    for record in plan.accounts:
        if isinstance(record, User) and record.name in plan.passwords:
            salt = dice.token(SALT_BYTES)
            hashed = hash_password(plan.passwords[record.name], salt, record.hashing_algorithm)
            record = replace(record, password_hash=hashed)
        changes.append(UpsertRecord(record))
    changes += map(UpsertRecord, plan.parameters)
    changes += map(UpsertRecord, plan.policies)
    changes += map(DeclareExchange, plan.exchanges)
    changes += [DeclareQueue(each, is_free=True) for each in plan.queues]
    changes += map(Bind, plan.bindings)
    return Together(tuple(changes))


def differences(broker: Broker, plan: Plan) -> Iterator[dict[str, str]]:
    """Yield a row for each thing that the import will add or change."""
    for record in plan.records:
        kept = broker.definitions.records[record.KIND].get(record.key)
        name = record.key if isinstance(record.key, str) else " ".join(record.key)
        what = record.KIND.replace("_", " ")
        yield {"what": what, "name": name, "change": ADDED if kept is None else CHANGED}
    for exchange in plan.exchanges:
        yield {"what": "exchange", "name": f"{exchange.vhost} {exchange.name}", "change": ADDED}
    for queue in plan.queues:
        yield {"what": "queue", "name": f"{queue.vhost} {queue.name}", "change": ADDED}
    for binding in plan.bindings:
        yield {"what": "binding", "name": title_of(binding), "change": ADDED}


def left_out(plan: Plan) -> Iterator[dict[str, str]]:
    """Yield a row for each thing in the document that will not be made, with the reason."""
    for binding, why in plan.left_out:
        yield {"what": "binding", "name": title_of(binding), "change": f"left out: {why}"}


def title_of(binding: BindingDefinition) -> str:
    """Return a text that names a binding for people: virtual host, source, destination and routing
    key."""
    ends = f"{binding.source} -> {binding.destination}"
    return f"{binding.vhost} {ends} {binding.routing_key}".rstrip()
