"""The page and the document about a whole post, from made-up runs of two brokers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from sluicemq.spark.pipeline import post_story
from sluicemq.spark.pipeline.post_claims import CLAIMS
from sluicemq.spark.pipeline.post_markdown import claims_document
from sluicemq.spark.pipeline.post_page import missed_table, render
from sluicemq.spark.pipeline.post_results import Post, PostBroker, key_of, label_of
from sluicemq.spark.pipeline.results import Outcome, RunResult, StepClass

from .records import make_run, make_step

NODES = ["amqp://guest@127.0.0.1:1/", "amqp://guest@127.0.0.1:2/", "amqp://guest@127.0.0.1:3/"]
FREE = {"confirms": False}
BOUND: dict[str, Any] = {"queue_arguments": {"x-queue-type": "quorum", "x-max-in-memory-length": 0}}


def run_of(scenario: int, queue_type: str, *steps: Any, **info: Any) -> RunResult:
    bound = BOUND if queue_type == "quorum" and "queue_arguments" not in info else {}
    facts: dict[str, Any] = {
        "scenario": scenario,
        "queue_type": queue_type,
        "target": NODES,
        **bound,
        **info,
    }
    run = make_run(list(steps) or [make_step()], **facts)
    return make_run(list(steps) or [make_step()], label=label_of(run.info), **facts)


COLLAPSED = make_step(None, 300, step_class=StepClass.COLLAPSED, latency_ms=9000)
OURS = PostBroker(
    "SluiceMQ 0.1.0",
    [
        run_of(1, "quorum", make_step(10, percent=1), make_step(100, percent=10)),
        run_of(5, "quorum", **FREE),
        run_of(5, "quorum", make_step(2, percent=2), make_step(200, percent=200)),
        run_of(5, "quorum", make_step(2, percent=2), profile="rabbitmq-3.8.3"),
        run_of(5, "quorum", make_step(2, percent=2), profile="rabbitmq-3.8.4"),
        run_of(5, "quorum", make_step(2, percent=2), queue_arguments={"x-queue-type": "quorum"}),
    ],
)
THEIRS = PostBroker(
    "RabbitMQ 3.10.8",
    [
        run_of(5, "quorum", COLLAPSED, product="RabbitMQ", **FREE),
        run_of(
            5,
            "mirrored",
            make_step(2, percent=2, step_class=StepClass.BACKLOG_GROWING),
            product="RabbitMQ",
            ack_interval=2,
            stopped="a publisher's connection was lost",
        ),
    ],
)
POST = Post([OURS, THEIRS])


@pytest.fixture(scope="module")
def page() -> str:
    return render(POST)


@pytest.fixture(scope="module")
def document() -> str:
    return claims_document(POST)


def test_runs_are_told_apart_by_what_the_post_changes() -> None:
    assert [label_of(run.info) for run in OURS.runs] == [
        "scenario 1, quorum, confirms",
        "scenario 5, quorum, no confirms",
        "scenario 5, quorum, confirms",
        "scenario 5, quorum, confirms, rabbitmq-3.8.3",
        "scenario 5, quorum, confirms, rabbitmq-3.8.4",
        "scenario 5, quorum, confirms, in memory",
    ]
    assert key_of(THEIRS.runs[1].info) == (5, "mirrored", "multiple")
    assert POST.keys == [
        (1, "quorum", "confirms"),
        (5, "mirrored", "multiple"),
        (5, "quorum", "no confirms"),
        (5, "quorum", "confirms"),
    ]


def test_runs_that_change_one_thing_are_no_runs_of_the_post_itself() -> None:
    assert OURS.usual_runs == OURS.runs[:3]
    assert OURS.run_of((5, "quorum", "confirms")) is OURS.runs[2]
    assert OURS.run_of((5, "mirrored", "confirms")) is None


def test_claims_are_held_against_ones_own_runs() -> None:
    own, other = ({x.claim: x.outcome for x in broker.claims} for broker in POST.brokers)
    assert own["5.a"] is Outcome.BETTER
    assert other["5.a"] is Outcome.HOLDS
    assert own["6.a"] is not Outcome.UNTESTED
    assert own["5.e"] is not Outcome.UNTESTED
    assert other["6.a"] is other["1.c"] is Outcome.UNTESTED


def test_the_verdicts_are_counted() -> None:
    text = post_story.verdicts(OURS)
    first, total, *others = (int(x) for x in re.findall(r"\b\d+\b", text.partition(": ")[2]))
    found = [first, *others]
    assert len(found) == 4
    assert sum(found) == total == len(CLAIMS)
    assert post_story.verdicts(PostBroker("Other", [])) == (
        f"Other: {total} of the post's {total} claims were not tested."
    )


def test_the_goal_names_the_runs_that_miss_it() -> None:
    assert post_story.goal(OURS) == "SluiceMQ 0.1.0: class 3 at every step in 3 of 3 runs."
    assert post_story.goal(THEIRS) == "RabbitMQ 3.10.8: class 3 at every step in 0 of 2 runs."
    assert post_story.goal(PostBroker("SluiceMQ 0.0", THEIRS.runs)) == (
        "SluiceMQ 0.0: class 3 at every step in 0 of 2 runs. The steps of the others, scenario 5: "
        "1 of class 1, 1 of class 4."
    )


def test_steps_that_miss_the_goal_are_listed_with_the_rule_they_break(page: str) -> None:
    assert post_story.missed_steps(OURS) == post_story.missed_steps(THEIRS) == []
    assert "is not class 3, and why" not in page
    slow = make_step(
        20, 400, percent=200, scale=4, unconfirmed_max=380, class_reason="but messages wait"
    )
    missing = PostBroker("SluiceMQ 0.0", [run_of(4, "quorum", make_step(2), slow)])
    table = missed_table(Post([missing, THEIRS]))
    assert table is not None
    (row,) = table.rows
    cells = [column.cell(row) for column in (table.name, *table.columns)]
    assert [cell.text.replace("\u00a0", " ") for cell in cells] == [
        "scenario 4, quorum, confirms",
        "20 (200 %)",
        "",
        "400/s, 40 %",
        "380, 95 %",
        "950 ms",
    ]
    assert cells[2].note == "but messages wait"
    assert "is not class 3, and why" in render(Post([missing, THEIRS]))


def test_what_went_wrong_is_said() -> None:
    assert post_story.faults(OURS) == []
    assert post_story.faults(THEIRS) == [
        "RabbitMQ 3.10.8, scenario 5, mirrored, multiple: it ended early: a publisher's "
        "connection was lost."
    ]


def test_what_is_better_on_ours_has_its_reason() -> None:
    found = {each.claim.claim: each.why for each in post_story.advantages(POST)}
    assert "one budget for the whole node" in found["5.a"]
    assert post_story.advantages(Post([THEIRS])) == []
    assert set(post_story.REASONS) <= {claim.id for claim in CLAIMS}


class Tags(HTMLParser):
    """Checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_says_everything(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    text = re.sub(r"<[^>]+>", " ", page[page.index("<main>") :])
    assert not re.search(r"\b(None|nan|inf)\b", text)
    for claim in CLAIMS:
        assert re.search(rf">\s*{re.escape(claim.id)}\s*<", page), claim.id
    assert "guest" not in text
    assert page.count('<svg class="broad"') == 2  # scenarios 1 and 5 were run with confirms
    assert text.index("of the post&#39;s 26 claims") < text.index("Scenario 1: few fast")


def test_the_document_has_a_row_for_each_claim(document: str) -> None:
    rows = re.findall(r"^\| (\d\.[a-e]) \|", document, re.MULTILINE)
    assert rows == [claim.id for claim in CLAIMS]
    (row,) = re.findall(r"^\| 5\.a \|.*$", document, re.MULTILINE)
    assert row.count(" | ") == 3
    assert "**better**: scenario 5, quorum, no confirms: 1,000/s in" in row
    assert "| holds: scenario 5, quorum, no confirms: 300/s in" in row
    assert "\u00a0" not in document
    assert "## What is better here, and why" in document
