"""What a policy can be for."""

from __future__ import annotations

from typing import Final

from sluicemq.model.queue_types import TYPES

ALL: Final = "all"
EXCHANGES: Final = "exchanges"
QUEUES: Final = "queues"
APPLY_TO: Final = (QUEUES, EXCHANGES, ALL, *(each.scope for each in TYPES.values()))
