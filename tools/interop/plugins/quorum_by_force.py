"""A plugin of pytest that has clients declare quorum queues, for suites that say nothing of a type,
and mostly declare what could not be of this one.

A queue with a name becomes durable, and neither exclusive nor auto-delete, unless its arguments are
for another type. Both brokers are asked the same; what a suite checks of what was changed fails on
both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import amqp.channel
import pamqp.commands
import pika.spec

OF_OTHER_TYPES = ("x-queue-type", "x-max-priority", "x-queue-mode", "x-queue-version")
TYPE = {"x-queue-type": "quorum"}


def forced(declare: Callable[..., Any]) -> Callable[..., Any]:
    """`declare` as it is, but for the queues it asks for."""
    names = signature(declare)

    @wraps(declare)
    def declare_quorum(*arguments: Any, **named: Any) -> Any:
        given = names.bind(*arguments, **named)
        given.apply_defaults()
        values = given.arguments
        table = values["arguments"] or {}
        if values["queue"] and not values["passive"] and not {*OF_OTHER_TYPES} & {*table}:
            values |= {"durable": True, "exclusive": False, "auto_delete": False}
            values["arguments"] = {**table, **TYPE}
        return declare(*given.args, **given.kwargs)

    return declare_quorum


for METHOD in (pamqp.commands.Queue.Declare, pika.spec.Queue.Declare):
    METHOD.__init__ = forced(METHOD.__init__)  # type: ignore[method-assign]
amqp.channel.Channel.queue_declare = forced(amqp.channel.Channel.queue_declare)
