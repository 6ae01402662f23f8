"""Definitions as a document: RabbitMQ's JSON, which its tools and ours export and import.

    {"rabbit_version", "users": [...], "vhosts": [...], "permissions": [...],
     "topic_permissions": [...], "parameters": [...], "global_parameters": [...],
     "policies": [...], "queues": [...], "exchanges": [...], "bindings": [...]}

Operator policies and limits of virtual hosts are parameters there. The document of one virtual host
has no users, virtual hosts and permissions, and does not name its virtual host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from sluicemq.errors import Refused
from sluicemq.model.definitions import (
    EXCHANGE,
    QUEUE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from sluicemq.model.document_fields import Errors, Fields, json_of, objects
from sluicemq.model.parameters import GlobalParameter, Parameter
from sluicemq.model.passwords import DEFAULT_ALGORITHM, check_hash
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.policies import OperatorPolicy, Policy
from sluicemq.model.policy_scopes import ALL
from sluicemq.model.queue_types import CLASSIC, TYPES_HERE
from sluicemq.model.users import User
from sluicemq.model.vhosts import (
    USER_LIMITS,
    VHOST_LIMITS,
    VhostDefinition,
    check_limits,
)

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS_COMPONENT: Final = "vhost-limits"
LIMITS: Final = "limits"
NO_TYPE: Final = ("", "undefined")
"""How documents say that a virtual host has no queue type of its own."""
P = TypeVar("P", bound=Policy)


class DefinitionsRefused(Refused):
    """A document of definitions cannot be imported. `errors` lists everything that is wrong, each
    with its place."""

    exit_code = 65

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        super().__init__("\n".join(errors))


@dataclass(slots=True)
class Definitions:
    """The contents of a document of definitions. `passwords` has, by user, the passwords that the
    document gives in place of a hash; `limits`, by virtual host, the limits that it gives as a
    parameter."""

    vhosts: list[VhostDefinition] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    passwords: dict[str, str] = field(default_factory=dict)
    permissions: list[Permission] = field(default_factory=list)
    topic_permissions: list[TopicPermission] = field(default_factory=list)
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    global_parameters: list[GlobalParameter] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    operator_policies: list[OperatorPolicy] = field(default_factory=list)
    exchanges: list[ExchangeDefinition] = field(default_factory=list)
    queues: list[QueueDefinition] = field(default_factory=list)
    bindings: list[BindingDefinition] = field(default_factory=list)


def parse_definitions(data: bytes | str, vhost: str | None = None) -> Definitions:
    """Return the contents of a document: of a whole node, or of the virtual host `vhost` when that
    is not None. Raises DefinitionsRefused with everything that is wrong in it."""
    try:
        document = json_of(data)
    except ValueError as error:
        raise DefinitionsRefused([f"this is no JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise DefinitionsRefused(["definitions are a JSON object"])
    errors = Errors()
    found = Definitions()
    if vhost is None:
        whole_node(document, found, errors)
    for each in objects(document, "parameters", errors):
        parameter(each, found, vhost)
    for each in objects(document, "policies", errors):
        found.policies.append(policy(each, Policy, place_of(each, vhost)))
    for each in objects(document, "exchanges", errors):
        found.exchanges.append(exchange(each, place_of(each, vhost)))
    for each in objects(document, "queues", errors):
        found.queues.append(queue(each, place_of(each, vhost)))
    for each in objects(document, "bindings", errors):
        found.bindings.append(binding(each, place_of(each, vhost)))
    if errors:
        raise DefinitionsRefused(errors)
    found.vhosts = [
        replace(each, limits={**each.limits, **found.limits.get(each.name, {})})
        for each in found.vhosts
    ]
    return found


def whole_node(document: Mapping[str, Any], found: Definitions, errors: Errors) -> None:
    """Add to `found` the parts that do not belong to one virtual host: virtual hosts, users,
    permissions and global parameters."""
    for each in objects(document, "vhosts", errors):
        found.vhosts.append(virtual_host(each))
    for each in objects(document, "users", errors):
        found.users.append(user(each, found))
    for each in objects(document, "permissions", errors):
        permission = Permission(
            each.name("user"),
            each.name("vhost"),
            each.text("configure"),
            each.text("write"),
            each.text("read"),
        )
        check(each, permission)
        found.permissions.append(permission)
    for each in objects(document, "topic_permissions", errors):
        topic = TopicPermission(
            each.name("user"),
            each.name("vhost"),
            each.name("exchange"),
            each.text("write"),
            each.text("read"),
        )
        check(each, topic)
        found.topic_permissions.append(topic)
    for each in objects(document, "global_parameters", errors):
        if "value" not in each:
            each.note("value is missing")
        found.global_parameters.append(GlobalParameter(each.name("name"), each.values.get("value")))


def place_of(fields: Fields, vhost: str | None) -> str:
    """Return the name of an item's virtual host: `vhost` or, when that is None, the one that its
    fields name."""
    return fields.name("vhost") if vhost is None else vhost


def check(fields: Fields, record: Permission | TopicPermission | Policy) -> None:
    """Have the record check itself, and note what is wrong with it."""
    try:
        record.check()
    except Refused as refused:
        fields.note(str(refused))


def virtual_host(fields: Fields) -> VhostDefinition:
    """Return a virtual host. In newer files its description, tags and queue type are in
    `metadata`."""
    within = fields.inner("metadata") if "metadata" in fields else fields
    kind = within.text("default_queue_type", "")
    if kind not in (*TYPES_HERE, *NO_TYPE):
        fields.note(f"there is no queue type {kind}: {', '.join(TYPES_HERE)}")
    return VhostDefinition(
        fields.name("name", filled=True),
        within.text("description", ""),
        within.tags("tags"),
        None if kind in NO_TYPE else kind,
        limits_of(fields, fields.object(LIMITS, {}), VHOST_LIMITS),
    )


def limits_of(fields: Fields, limits: object, known: tuple[str, ...]) -> dict[str, int]:
    """Return the limits of a user or a virtual host; none, with a note, when they are invalid.
    `known` are the names of the existing limits."""
    try:
        return check_limits(limits, known)
    except Refused as refused:
        fields.note(str(refused))
        return {}


def user(fields: Fields, found: Definitions) -> User:
    """Return a user. It may come with a hash, with a password, which goes to `found.passwords`, or
    with neither: then nobody can log in with a password."""
    name = fields.name("name", filled=True)
    password_hash = fields.text("password_hash", "")
    algorithm = fields.text("hashing_algorithm", DEFAULT_ALGORITHM)
    try:
        check_hash(password_hash, algorithm)
    except Refused as refused:
        fields.note(str(refused))
    if "password" in fields and not password_hash:
        found.passwords[name] = fields.text("password")
    if "tags" not in fields:
        fields.note("tags is missing")
    limits = limits_of(fields, fields.object(LIMITS, {}), USER_LIMITS)
    return User(name, password_hash, algorithm, fields.tags("tags"), limits)


def parameter(fields: Fields, found: Definitions, vhost: str | None) -> None:
    """Add the parameter of a component to `found`. Operator policies and the limits of virtual
    hosts, which are parameters in documents, go to their own tables."""
    component = fields.name("component")
    place = place_of(fields, vhost)
    if "value" not in fields:
        fields.note("value is missing")
    elif component == OPERATOR_POLICY:
        within = fields.inner("value")
        named = Fields({**within.values, "name": fields.name("name")}, fields.place, fields.errors)
        found.operator_policies.append(policy(named, OperatorPolicy, place))
    elif component == VHOST_LIMITS_COMPONENT:
        found.limits[place] = limits_of(fields, fields.object("value"), VHOST_LIMITS)
    else:
        found.parameters.append(
            Parameter(place, component, fields.name("name"), fields.values["value"])
        )


def policy(fields: Fields, kind: type[P], vhost: str) -> P:
    """Return a policy or an operator policy, as `kind` says, in the virtual host `vhost`."""
    made = kind(
        vhost,
        fields.name("name"),
        fields.text("pattern"),
        fields.text("apply-to", ALL),
        fields.object("definition"),
        fields.number("priority", 0),
    )
    check(fields, made)
    return made


def exchange(fields: Fields, vhost: str) -> ExchangeDefinition:
    """Return an exchange of the document, as one that was declared in the virtual host `vhost`."""
    return ExchangeDefinition(
        fields.name("name"),
        fields.name("type"),
        fields.flag("durable"),
        fields.flag("auto_delete"),
        fields.flag("internal", False),
        fields.arguments(),
        vhost,
    )


def queue(fields: Fields, vhost: str) -> QueueDefinition:
    """Return a queue of the document, as one that was declared in the virtual host `vhost`. Its
    `type` counts when its arguments name none: such a queue got its type from the default of its
    virtual host."""
    arguments = fields.arguments()
    kind = fields.text("type", CLASSIC)
    if "x-queue-type" not in arguments and kind not in (CLASSIC, ""):
        arguments = {**arguments, "x-queue-type": kind}
    return QueueDefinition(
        fields.name("name", filled=True),
        fields.flag("durable"),
        False,
        fields.flag("auto_delete"),
        arguments,
        None,
        vhost,
    )


def binding(fields: Fields, vhost: str) -> BindingDefinition:
    """Return a binding of the document, from an exchange to a queue or an exchange."""
    kind = fields.text("destination_type", QUEUE)
    if kind not in (QUEUE, EXCHANGE):
        fields.note(f"destination_type must be {QUEUE} or {EXCHANGE}")
    return BindingDefinition(
        fields.name("source"),
        fields.name("destination"),
        kind,
        fields.name("routing_key", ""),
        fields.arguments(),
        vhost,
    )
