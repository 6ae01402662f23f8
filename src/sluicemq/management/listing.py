"""Filters and sorts lists, and cuts pages and columns from them, with RabbitMQ's parameters, bounds
and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

import regex

from sluicemq.management.api_error import ApiError, bad_request

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
MATCH_SECONDS: Final = 0.05
"""The most seconds for matching one pattern with one name."""

SHAPED_A_TURN: Final = 100
"""Records that are shaped before other requests have their turns."""

Shown = dict[str, Any]


async def shaped_as_wanted(
    rows: Sequence[Shown],
    query: Mapping[str, str],
    shape: Callable[[Shown], Shown],
    plain: Container[str],
) -> Any:
    """Return records as `as_wanted` does, in the shape of the API. `plain` columns are the same in
    both shapes: when a page is sorted by one of them, only its own records are shaped. Other
    requests have their turns while many are shaped."""
    if "page" in query and query.get("sort", "name") in plain:
        found = as_wanted(rows, {key: query[key] for key in query if key != "columns"})
        found["items"] = with_columns([shape(row) for row in found["items"]], query)
        return found
    shown: list[Shown] = []
    for at in range(0, len(rows), SHAPED_A_TURN):
        shown += map(shape, rows[at : at + SHAPED_A_TURN])
        await asyncio.sleep(0)
    return as_wanted(shown, query)


def as_wanted(rows: Sequence[Shown], query: Mapping[str, str]) -> Any:
    """Return the rows that a query asks for: a list, or with `page` an object that has one page of
    it. Raises ApiError for parameters that make no sense."""
    total = len(rows)
    found = list(rows)
    if query.get("name"):
        found = named(found, query["name"], query.get("use_regex") == "true")
    if query.get("sort"):
        path = query["sort"].split(".")
        reverse = query.get("sort_reverse") == "true"
        found.sort(key=lambda row: comparable(value_at(row, path)), reverse=reverse)
    if "page" not in query:
        return with_columns(found, query)
    page = number(query, "page", 1)
    size = number(query, "page_size", PAGE_SIZE)
    if size > PAGE_SIZE_MAX:
        raise bad_request(f"page_size must be at most {PAGE_SIZE_MAX}")
    pages = max(1, -(-len(found) // size))
    if page > pages:
        text = f"Page out of range, page: {page} page size: {size}, len: {len(found)}"
        raise ApiError(400, "page_out_of_range", text)
    items = found[(page - 1) * size : page * size]
    return {
        "filtered_count": len(found),
        "item_count": len(items),
        "items": with_columns(items, query),
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": total,
    }


def number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a positive number of a query. Raises ApiError when it is not one."""
    text = query.get(name)
    if text is None or text == "":
        return default
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or int(text) < 1:
        raise bad_request(f"{name} must be a positive number")
    return int(text)


def named(rows: list[Shown], wanted: str, is_regex: bool) -> list[Shown]:
    """Return the rows whose names contain a text, or match a regular expression. Raises ApiError
    for an expression that is invalid, or takes too long."""
    if not is_regex:
        lower = wanted.lower()
        return [row for row in rows if lower in str(row.get("name", "")).lower()]
    try:
        pattern = regex.compile(wanted, regex.IGNORECASE)
        return [
            row for row in rows if pattern.search(str(row.get("name", "")), timeout=MATCH_SECONDS)
        ]
    except (regex.error, TimeoutError) as error:
        raise bad_request(f"name is no usable regular expression: {error}") from error


def value_at(row: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of keys; None when there is none."""
    for key in path:
        if not isinstance(row, dict):
            return None
        row = row.get(key)
    return row


def comparable(value: Any) -> tuple[int, Any]:
    """Return a sort key for a value of any type; missing values come first."""
    if value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return 2, str(value)


def with_columns(rows: list[Shown], query: Mapping[str, str]) -> list[Shown]:
    """Return the rows with the columns that a query names, or with all columns if it names none."""
    if not query.get("columns"):
        return rows
    return [only(row, query["columns"]) for row in rows]


def only(row: Shown, columns: str) -> Shown:
    """Return a row with these columns alone; dots lead into nested objects."""
    shown: Shown = {}
    for column in columns.split(","):
        path = column.strip().split(".")
        value = value_at(row, path)
        if value is None and path[0] not in row:
            continue
        place = shown
        for key in path[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                break
        else:
            place[path[-1]] = value
    return shown
