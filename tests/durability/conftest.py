"""What the durability tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.host import run

if hasattr(run, "MemoryDisk"):
    collect_ignore = ["test_canaries.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without storage there is nothing to see here."""
    if hasattr(run, "MemoryDisk"):
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="THIS BROKER KEEPS NOTHING ON DISK YET"))
