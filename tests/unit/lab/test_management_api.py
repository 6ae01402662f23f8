"""RabbitMQ's HTTP API under load: what it has no figures of yet is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from sluicemq.client.address import Address
from sluicemq.lab import management_api
from sluicemq.lab.management_api import ManagementApi

Rows = list[dict[str, Any]]

KNOWN = {"name": "a", "running": True, "os_pid": "11"}
SILENT = {"name": "b", "running": True}
DOWN = {"name": "c", "running": False}


class Answers(ManagementApi):
    """Gives prepared answers, the last one again and again."""

    def __init__(self, answers: list[Rows]) -> None:
        super().__init__("http://127.0.0.1:15672", Address.parse("amqp://guest:guest@127.0.0.1"))
        self.answers = answers

    def _ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_nodes_that_run_and_have_no_figures_yet_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(management_api, "RETRY_S", 0.0)
    late = Answers([[SILENT, KNOWN], [SILENT, KNOWN], [{**SILENT, "os_pid": "12"}, KNOWN, DOWN]])
    assert [(node.name, node.pid) for node in late.nodes()] == [("a", 11), ("b", 12)]


def test_nodes_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(management_api, "FIGURES_S", 0.0)
    monkeypatch.setattr(management_api, "RETRY_S", 0.0)
    assert [node.name for node in Answers([[SILENT, KNOWN]]).nodes()] == ["a"]
