"""Runs are told apart by the shortest words."""

from __future__ import annotations

from pathlib import Path

from sluicemq.spark.pipeline.labels import label_runs

from .records import make_info


def test_one_run_is_called_by_its_mode() -> None:
    assert label_runs([make_info(confirms=False)], [Path("a")]) == ["no confirms"]


def test_what_differs_is_said() -> None:
    infos = [make_info(queue_type="classic"), make_info(queue_type="quorum", ack_interval=5)]
    assert label_runs(infos, [Path("a"), Path("b")]) == [
        "classic queues, confirms, single acks",
        "quorum queues, confirms, ack every 5",
    ]


def test_a_label_of_its_own_is_what_a_run_is_called() -> None:
    infos = [make_info(label="before"), make_info(label=""), make_info()]
    places = [Path("a"), Path("b"), Path("c")]
    assert label_runs(infos, places) == ["before", "confirms (b)", "confirms (c)"]


def test_runs_of_one_label_are_told_apart_by_their_directories() -> None:
    infos = [make_info(label="after")] * 2
    assert label_runs(infos, [Path("a"), Path("b")]) == ["after (a)", "after (b)"]


def test_equal_runs_are_told_apart_by_their_directories() -> None:
    places = [Path("out/monday"), Path("out/tuesday")]
    assert label_runs([make_info()] * 2, places) == ["confirms (monday)", "confirms (tuesday)"]


def test_runs_in_directories_of_one_name_are_numbered() -> None:
    places = [Path("a/run"), Path("b/run"), Path("c")]
    assert label_runs([make_info()] * 3, places) == [
        "confirms (run), run 1",
        "confirms (run), run 2",
        "confirms (c)",
    ]


def test_profiles_and_numbers_of_nodes_are_said() -> None:
    infos = [make_info(profile="adaptive"), make_info(target=["amqp://a"] * 3)]
    assert label_runs(infos, [Path("a"), Path("b")]) == [
        "1 node, profile adaptive, confirms",
        "3 nodes, profile its own, confirms",
    ]
