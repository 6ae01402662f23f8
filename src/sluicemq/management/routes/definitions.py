"""Definitions: export and import, as a document."""

from __future__ import annotations

import json
from typing import Any, Final

from sluicemq.management.call import ApiAnswer, ApiRoute, Call
from sluicemq.management.sign_in import ADMINISTRATOR


async def document(call: Call, **where: object) -> ApiAnswer:
    """Return the document with all definitions, or those of one virtual host; as a file to save
    with `download`."""
    [row] = await call.desk.link.ask("export_definitions", **where)
    headers = {}
    if call.query.get("download"):
        name = "".join(c for c in call.query["download"] if c.isascii() and c.isprintable())
        name = name.replace('"', "").replace("\\", "")
        headers["content-disposition"] = f'attachment; filename="{name}"'
    return ApiAnswer(json.loads(row["file"]), 200, headers)


async def export(call: Call) -> ApiAnswer:
    """Return the definitions of the whole broker."""
    return await document(call)


async def export_vhost(call: Call) -> ApiAnswer:
    """Return the definitions in one virtual host."""
    return await document(call, vhost=await call.vhost())


async def load(call: Call, **where: object) -> ApiAnswer:
    """Import a document, all or nothing; with `dry_run=true` only report what would change."""
    call.body()
    dry_run = call.query.get("dry_run") == "true"
    text = call.raw.decode("utf-8", "surrogateescape")
    told: list[Any] = await call.desk.change(
        "import_definitions", file=text, dry_run=dry_run, **where
    )
    return ApiAnswer(told) if dry_run else ApiAnswer(None, 204)


async def load_all(call: Call) -> ApiAnswer:
    """Import the definitions of a whole broker."""
    return await load(call)


async def load_vhost(call: Call) -> ApiAnswer:
    """Import definitions into one virtual host."""
    return await load(call, vhost=await call.vhost())


ROUTES: Final = (
    ApiRoute("GET", "definitions", ADMINISTRATOR, export),
    ApiRoute("POST", "definitions", ADMINISTRATOR, load_all),
    ApiRoute("PUT", "definitions", ADMINISTRATOR, load_all),
    ApiRoute("GET", "definitions/{vhost}", ADMINISTRATOR, export_vhost),
    ApiRoute("POST", "definitions/{vhost}", ADMINISTRATOR, load_vhost),
    ApiRoute("PUT", "definitions/{vhost}", ADMINISTRATOR, load_vhost),
)
