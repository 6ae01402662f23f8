"""What a policy can be for."""

from __future__ import annotations

from typing import Final

ALL: Final = "all"
EXCHANGES: Final = "exchanges"
QUEUES: Final = "queues"
QUEUES_OF_TYPE: Final = {
    "classic": "classic_queues",
    "quorum": "quorum_queues",
    "stream": "streams",
}
APPLY_TO: Final = (QUEUES, EXCHANGES, ALL, *QUEUES_OF_TYPE.values())
