"""Definitions as RabbitMQ's document: what `model/document.py` reads."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from sluicemq import __version__
from sluicemq.manage.lists import jsonable
from sluicemq.model.definitions import RESERVED_PREFIX
from sluicemq.model.document import OPERATOR_POLICY, VHOST_LIMITS_COMPONENT
from sluicemq.model.parameters import IMPORTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.chain.broker import Broker
    from sluicemq.chain.vhost import VirtualHost
    from sluicemq.model.policies import Policy

Object = dict[str, Any]

RABBITMQ_VERSION = "3.10.8"
"""Whose format it is: RabbitMQ looks at that when it imports."""


def document_of(broker: Broker, vhost: VirtualHost | None) -> Object:
    """Everything, or what is in one virtual host. Exclusive queues live with their connections:
    they are not in there, nor are their bindings."""
    definitions = broker.definitions
    vhosts = [vhost] if vhost is not None else [*broker.vhosts.values()]
    names = {each.name for each in vhosts}
    document: Object = {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "SluiceMQ",
        "product_version": __version__,
    }
    if vhost is None:
        document |= {
            "users": [each.as_json() for each in definitions.users.values()],
            "vhosts": [*map(vhost_object, vhosts)],
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
    document |= {
        "parameters": [each for each in parameters(broker) if each["vhost"] in names],
        "policies": [
            policy_object(each) for each in definitions.policies.values() if each.vhost in names
        ],
        "queues": [*chain.from_iterable(map(queues, vhosts))],
        "exchanges": [*chain.from_iterable(map(exchanges, vhosts))],
        "bindings": [*chain.from_iterable(map(bindings, vhosts))],
    }
    if vhost is not None:
        for section in ("parameters", "policies", "queues", "exchanges", "bindings"):
            for each in document[section]:
                del each["vhost"]
    return document


def vhost_object(vhost: VirtualHost) -> Object:
    """Its limits are among the parameters, where RabbitMQ looks for them."""
    definition = vhost.broker.definitions.vhosts[vhost.name]
    metadata: Object = {"description": definition.description, "tags": [*definition.tags]}
    if definition.default_queue_type is not None:
        metadata["default_queue_type"] = definition.default_queue_type
    return {"name": vhost.name, "metadata": metadata, "limits": []}


def parameters(broker: Broker) -> Iterator[Object]:
    """With operator policies and limits of virtual hosts, which are parameters there."""
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
    """`apply-to` has a hyphen there."""
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def queues(vhost: VirtualHost) -> Iterator[Object]:
    """Those that belong to no connection."""
    for queue in vhost.queues.values():
        definition = queue.definition
        if definition.owner is None:
            yield {
                "name": definition.name,
                "vhost": vhost.name,
                "type": definition.type,
                "durable": definition.durable,
                "auto_delete": definition.auto_delete,
                "arguments": jsonable(definition.arguments),
            }


def exchanges(vhost: VirtualHost) -> Iterator[Object]:
    """Those that clients have declared."""
    for name, exchange in vhost.topology.exchanges.items():
        definition = exchange.definition
        if not name.startswith(RESERVED_PREFIX):
            yield {
                "name": name,
                "vhost": vhost.name,
                "type": definition.type,
                "durable": definition.durable,
                "auto_delete": definition.auto_delete,
                "internal": definition.internal,
                "arguments": jsonable(definition.arguments),
            }


def bindings(vhost: VirtualHost) -> Iterable[Object]:
    """Those that clients have made, but for those of exclusive queues."""
    exclusive = {name for owned in vhost.exclusive.values() for name in owned}
    for exchange in vhost.topology.exchanges.values():
        for binding in exchange.bindings.values():
            if binding.destination_type == "queue" and binding.destination in exclusive:
                continue
            yield {
                "source": binding.source,
                "vhost": vhost.name,
                "destination": binding.destination,
                "destination_type": binding.destination_type,
                "routing_key": binding.routing_key,
                "arguments": jsonable(binding.arguments),
            }
