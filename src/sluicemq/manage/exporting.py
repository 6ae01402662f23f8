"""Exports definitions as RabbitMQ's document, which `model/document.py` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sluicemq import __version__
from sluicemq.manage.lists import jsonable
from sluicemq.model.definitions import QUEUE, RESERVED_PREFIX
from sluicemq.model.document import OPERATOR_POLICY, VHOST_LIMITS_COMPONENT
from sluicemq.model.parameters import IMPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from sluicemq.broker.broker import Broker
    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.model.definitions import (
        BindingDefinition,
        ExchangeDefinition,
        QueueDefinition,
    )
    from sluicemq.model.policies import Policy

Object = dict[str, Any]

RABBITMQ_VERSION = "3.10.8"
"""The version of RabbitMQ that has this format: RabbitMQ checks it when it imports."""

OBJECT_WORK: Final = 4
"""Units of work that a queue, exchange or binding costs."""


def fill(document: Object, broker: Broker, vhost: VirtualHost | None) -> Iterator[int]:
    """Put all definitions, or those of one virtual host, into `document`: an object is a piece,
    with the units of work it cost. Exclusive queues and their bindings are left out, because they
    end with their connections."""
    vhosts = [vhost] if vhost is not None else [*broker.vhosts.values()]
    taken = [
        (section, each.name, make, take(each))
        for section, (take, make) in IN_VHOSTS.items()
        for each in vhosts
    ]
    document |= beginning(broker, vhost, {each.name for each in vhosts})
    for section, name, make, definitions in taken:
        for definition in definitions:
            document[section].append(make(definition, name))
            yield OBJECT_WORK
    if vhost is not None:
        for section in ("parameters", "policies", *IN_VHOSTS):
            for each in document[section]:
                del each["vhost"]


def beginning(broker: Broker, vhost: VirtualHost | None, names: Container[str]) -> Object:
    """Return the document with the sections that are short; the other sections are empty."""
    definitions = broker.definitions
    document: Object = {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "SluiceMQ",
        "product_version": __version__,
    }
    if vhost is None:
        document |= {
            "users": [each.as_json() for each in definitions.users.values()],
            "vhosts": [*map(vhost_object, broker.vhosts.values())],
            "permissions": [each.as_json() for each in definitions.permissions.values()],
            "topic_permissions": [
                each.as_json() for each in definitions.topic_permissions.values()
            ],
            "global_parameters": [
                each.as_json()
                for each in definitions.global_parameters.values()
                if each.name != IMPORTED
            ],
        }
    return document | {
        "parameters": [each for each in parameters(broker) if each["vhost"] in names],
        "policies": [
            policy_object(each) for each in definitions.policies.values() if each.vhost in names
        ],
        **{section: [] for section in IN_VHOSTS},
    }


def vhost_object(vhost: VirtualHost) -> Object:
    """Return a virtual host. Its limits are among the parameters, where RabbitMQ expects them."""
    definition = vhost.services.definitions.vhosts[vhost.name]
    metadata: Object = {"description": definition.description, "tags": [*definition.tags]}
    if definition.default_queue_type is not None:
        metadata["default_queue_type"] = definition.default_queue_type
    return {"name": vhost.name, "metadata": metadata, "limits": []}


def parameters(broker: Broker) -> Iterator[Object]:
    """Yield the parameters, including operator policies and limits of virtual hosts."""
    definitions = broker.definitions
    for parameter in definitions.parameters.values():
        yield parameter.as_json()
    for policy in definitions.operator_policies.values():
        value = policy_object(policy)
        name = value.pop("name")
        vhost = value.pop("vhost")
        yield {"vhost": vhost, "component": OPERATOR_POLICY, "name": name, "value": value}
    for each in definitions.vhosts.values():
        if each.limits:
            limits = dict(each.limits)
            component = VHOST_LIMITS_COMPONENT
            yield {"vhost": each.name, "component": component, "name": "limits", "value": limits}


def policy_object(policy: Policy) -> Object:
    """Return a policy as RabbitMQ's definitions file has it, with a hyphen in `apply-to`."""
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def queues(vhost: VirtualHost) -> list[QueueDefinition]:
    """Return the queues that belong to no connection."""
    definitions = [queue.definition for queue in vhost.queues.values()]
    return [each for each in definitions if each.owner is None]


def queue_object(definition: QueueDefinition, vhost: str) -> Object:
    """Return a queue as RabbitMQ's definitions file has it."""
    return {
        "name": definition.name,
        "vhost": vhost,
        "type": definition.type,
        "durable": definition.durable,
        "auto_delete": definition.auto_delete,
        "arguments": jsonable(definition.arguments),
    }


def exchanges(vhost: VirtualHost) -> list[ExchangeDefinition]:
    """Return the exchanges that clients have declared."""
    found = vhost.topology.exchanges.items()
    return [each.definition for name, each in found if not name.startswith(RESERVED_PREFIX)]


def exchange_object(definition: ExchangeDefinition, vhost: str) -> Object:
    """Return an exchange as RabbitMQ's definitions file has it."""
    return {
        "name": definition.name,
        "vhost": vhost,
        "type": definition.type,
        "durable": definition.durable,
        "auto_delete": definition.auto_delete,
        "internal": definition.internal,
        "arguments": jsonable(definition.arguments),
    }


def bindings(vhost: VirtualHost) -> list[BindingDefinition]:
    """Return the bindings that clients have made, without those of exclusive queues."""
    exclusive = {name for owned in vhost.exclusive.values() for name in owned}
    return [
        binding
        for exchange in vhost.topology.exchanges.values()
        for binding in exchange.bindings.values()
        if binding.destination_type != QUEUE or binding.destination not in exclusive
    ]


def binding_object(binding: BindingDefinition, vhost: str) -> Object:
    """Return a binding of an exchange or a queue to an exchange."""
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": jsonable(binding.arguments),
    }


IN_VHOSTS: Final[dict[str, tuple[Callable[[VirtualHost], list[Any]], Callable[..., Object]]]] = {
    "queues": (queues, queue_object),
    "exchanges": (exchanges, exchange_object),
    "bindings": (bindings, binding_object),
}
"""Sections that may be long: the function for their content in a virtual host, and that for an
object."""
