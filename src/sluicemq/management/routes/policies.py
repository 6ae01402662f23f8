"""Policies, operator policies and parameters: list, show, set, clear."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from sluicemq.management.api_error import bad_request, not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, object_in, text_in
from sluicemq.management.listing import as_wanted
from sluicemq.management.sign_in import ADMINISTRATOR, MANAGEMENT, POLICYMAKER
from sluicemq.model.parameters import IMPORTED

Shown = dict[str, Any]
Rows = Callable[[Call], Awaitable[list[Shown]]]


async def rows_of(table: str, call: Call) -> list[Shown]:
    """Return the records of one table that the user sees."""
    return call.visible(await call.desk.declared(table))


async def all_rows(table: str, call: Call) -> ApiAnswer:
    """Return all records of one table that the user sees."""
    return ApiAnswer(as_wanted(await rows_of(table, call), call.query))


async def rows_in(table: str, call: Call) -> ApiAnswer:
    """Return the records of one table in the virtual host that the path names."""
    vhost = await call.seen_vhost()
    rows = [row for row in await rows_of(table, call) if row["vhost"] == vhost]
    return ApiAnswer(as_wanted(rows, call.query))


async def found(table: str, call: Call) -> Shown:
    """Return the record of the path's virtual host and name. Raises ApiError when there is none."""
    vhost = await call.seen_vhost()
    for row in await rows_of(table, call):
        if (row["vhost"], row["name"]) == (vhost, call.path["name"]):
            return row
    raise not_found()


async def one(table: str, call: Call) -> ApiAnswer:
    """Return one policy, by its virtual host and its name."""
    return ApiAnswer(await found(table, call))


async def set_policy(command: str, table: str, call: Call) -> ApiAnswer:
    """Set a policy: 201 when it is new, 204 when it replaces one."""
    vhost, body = await call.vhost(), call.body()
    priority = body.get("priority", 0)
    if isinstance(priority, str) and priority.lstrip("-").isdecimal():
        priority = int(priority)
    if type(priority) is not int:
        raise bad_request("priority must be a whole number")
    name = call.path["name"]
    rows = await call.desk.declared(table)
    is_new = all((row["vhost"], row["name"]) != (vhost, name) for row in rows)
    if "definition" not in body:
        raise bad_request("the key definition is missing")
    await call.desk.change(
        command,
        vhost=vhost,
        name=name,
        pattern=text_in(body, "pattern"),
        definition=json.dumps(object_in(body, "definition")),
        apply_to=text_in(body, "apply-to", "all"),
        priority=priority,
    )
    return ApiAnswer(None, 201 if is_new else 204)


async def clear_policy(command: str, table: str, call: Call) -> ApiAnswer:
    """Delete a policy, which must be there."""
    row = await found(table, call)
    await call.vhost()
    await call.desk.change(command, vhost=row["vhost"], name=row["name"])
    return ApiAnswer(None, 204)


async def parameters(call: Call) -> ApiAnswer:
    """Return all runtime parameters that the user sees."""
    return await all_rows("parameters", call)


async def parameters_by(call: Call) -> ApiAnswer:
    """Return the runtime parameters of one component, in one virtual host if the path names one."""
    rows = await rows_of("parameters", call)
    wanted = call.path.get("vhost")
    if wanted is not None:
        await call.seen_vhost()
    chosen = [
        row
        for row in rows
        if row["component"] == call.path["component"] and wanted in (None, row["vhost"])
    ]
    return ApiAnswer(as_wanted(chosen, call.query))


async def parameter_found(call: Call) -> Shown | None:
    """Return the runtime parameter that the path names; None when there is none."""
    vhost = await call.seen_vhost()
    wanted = vhost, call.path["component"], call.path["name"]
    for row in await rows_of("parameters", call):
        if (row["vhost"], row["component"], row["name"]) == wanted:
            return row
    return None


async def parameter(call: Call) -> ApiAnswer:
    """Return one runtime parameter of a component."""
    row = await parameter_found(call)
    if row is None:
        raise not_found()
    return ApiAnswer(row)


async def set_parameter(call: Call) -> ApiAnswer:
    """Set a runtime parameter: 201 when it is new, 204 when it replaces one."""
    body = call.body()
    if "value" not in body:
        raise bad_request("the key value is missing")
    is_new = await parameter_found(call) is None
    await call.desk.change(
        "set_parameter",
        vhost=await call.vhost(),
        component=call.path["component"],
        name=call.path["name"],
        value=json.dumps(body["value"]),
    )
    return ApiAnswer(None, 201 if is_new else 204)


async def clear_parameter(call: Call) -> ApiAnswer:
    """Remove a runtime parameter, which must be there."""
    row = await parameter_found(call)
    if row is None:
        raise not_found()
    await call.desk.change(
        "clear_parameter",
        vhost=await call.vhost(),
        component=row["component"],
        name=row["name"],
    )
    return ApiAnswer(None, 204)


async def global_parameters(call: Call) -> ApiAnswer:
    """Return all global runtime parameters."""
    rows = await call.desk.declared("global_parameters")
    return ApiAnswer(as_wanted([row for row in rows if is_public(row)], call.query))


def is_public(row: Shown) -> bool:
    """Tell whether a user has set this global parameter; the others are the broker's own."""
    return bool(row["name"] != IMPORTED)


async def global_found(call: Call) -> Shown | None:
    """Return the global parameter that the path names; None when there is none."""
    for row in await call.desk.declared("global_parameters"):
        if row["name"] == call.path["name"]:
            return row
    return None


async def global_parameter(call: Call) -> ApiAnswer:
    """Return one global runtime parameter."""
    row = await global_found(call)
    if row is None:
        raise not_found()
    return ApiAnswer(row)


async def set_global(call: Call) -> ApiAnswer:
    """Set a global runtime parameter: 201 when it is new, 204 when it replaces one."""
    body = call.body()
    if "value" not in body:
        raise bad_request("the key value is missing")
    is_new = await global_found(call) is None
    await call.desk.change(
        "set_global_parameter", name=call.path["name"], value=json.dumps(body["value"])
    )
    return ApiAnswer(None, 201 if is_new else 204)


async def clear_global(call: Call) -> ApiAnswer:
    """Remove a global runtime parameter, which must be there."""
    row = await global_found(call)
    if row is None:
        raise not_found()
    await call.desk.change("clear_global_parameter", name=row["name"])
    return ApiAnswer(None, 204)


def policy_routes(path: str, table: str, kind: str, tag: str) -> tuple[ApiRoute, ...]:
    """Return the routes of policies or of operator policies; users with `tag` may change them."""
    place = f"{path}/{{vhost}}/{{name}}"
    return (
        ApiRoute("GET", path, MANAGEMENT, partial(all_rows, table)),
        ApiRoute("GET", f"{path}/{{vhost}}", MANAGEMENT, partial(rows_in, table)),
        ApiRoute("GET", place, MANAGEMENT, partial(one, table)),
        ApiRoute("PUT", place, tag, partial(set_policy, f"set_{kind}", table)),
        ApiRoute("DELETE", place, tag, partial(clear_policy, f"clear_{kind}", table)),
    )


PARAMETER: Final = "parameters/{component}/{vhost}/{name}"
GLOBAL: Final = "global-parameters/{name}"
ROUTES: Final = (
    *policy_routes("policies", "policies", "policy", POLICYMAKER),
    *policy_routes("operator-policies", "operator_policies", "operator_policy", ADMINISTRATOR),
    ApiRoute("GET", "parameters", POLICYMAKER, parameters),
    ApiRoute("GET", "parameters/{component}", POLICYMAKER, parameters_by),
    ApiRoute("GET", "parameters/{component}/{vhost}", POLICYMAKER, parameters_by),
    ApiRoute("GET", PARAMETER, POLICYMAKER, parameter),
    ApiRoute("PUT", PARAMETER, POLICYMAKER, set_parameter),
    ApiRoute("DELETE", PARAMETER, POLICYMAKER, clear_parameter),
    ApiRoute("GET", "global-parameters", POLICYMAKER, global_parameters),
    ApiRoute("GET", GLOBAL, POLICYMAKER, global_parameter),
    ApiRoute("PUT", GLOBAL, ADMINISTRATOR, set_global),
    ApiRoute("DELETE", GLOBAL, ADMINISTRATOR, clear_global),
)
