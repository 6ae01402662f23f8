"""Runs are told apart by the shortest words."""

from __future__ import annotations

from sluicemq.spark.pipeline.labels import label_runs

from .records import make_info


def test_one_run_is_called_by_its_mode() -> None:
    assert label_runs([make_info(confirms=False)]) == ["no confirms"]


def test_what_differs_is_said() -> None:
    infos = [make_info(queue_type="classic"), make_info(queue_type="quorum", ack_interval=5)]
    assert label_runs(infos) == [
        "classic queues, confirms, single acks",
        "quorum queues, confirms, ack every 5",
    ]


def test_equal_runs_are_numbered() -> None:
    assert label_runs([make_info()] * 2) == ["confirms (run 1)", "confirms (run 2)"]
