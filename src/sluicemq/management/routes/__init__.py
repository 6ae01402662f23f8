"""The routes of the API, a file a noun: each has ROUTES, a table of its methods and paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.management.routes import (
    bindings,
    clients,
    definitions,
    exchanges,
    health,
    nodes,
    policies,
    queues,
    users,
    vhosts,
)

if TYPE_CHECKING:
    from sluicemq.management.call import ApiRoute

ROUTES: Final[tuple[ApiRoute, ...]] = (
    *nodes.ROUTES,
    *queues.ROUTES,
    *exchanges.ROUTES,
    *bindings.ROUTES,
    *clients.ROUTES,
    *vhosts.ROUTES,
    *users.ROUTES,
    *policies.ROUTES,
    *definitions.ROUTES,
    *health.ROUTES,
)
