"""Writes every claim of the post with its verdicts, as a document in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sluicemq.spark.pipeline import post_story
from sluicemq.spark.pipeline.formats import SPACE
from sluicemq.spark.pipeline.post_results import Post
from sluicemq.spark.pipeline.results import ClaimResult, Outcome

SIGNS: Final = {
    Outcome.HOLDS: "holds",
    Outcome.BETTER: "**better**",
    Outcome.FAILS: "does not hold",
    Outcome.UNTESTED: "not tested",
}


def claims_document(post: Post) -> str:
    """Return the document: the runs, the verdicts, every claim, and what is better and why."""
    lines = ["# The post's claims", "", post_story.about(post), ""]
    for broker in post.brokers:
        lines += [f"- {post_story.verdicts(broker)}", f"- {post_story.goal(broker)}"]
        lines += [f"- {text}" for text in post_story.faults(broker)]
    for chapter in post_story.chapters(post):
        lines += ["", f"## {chapter.title}", "", chapter.text, ""]
        names = [broker.name for broker in post.brokers]
        lines += _row(["", "the post says", *names]), _row(["---"] * (len(names) + 2))
        of_brokers = [post_story.claims_of(broker, chapter) for broker in post.brokers]
        for claims in zip(*of_brokers, strict=True):
            lines.append(_row([claims[0].claim, claims[0].text, *map(_verdict, claims)]))
    better = post_story.advantages(post)
    if better:
        lines += ["", "## What is better here, and why", ""]
        lines += [
            f"- {each.claim.claim}: {each.claim.evidence}. Why: {each.why}." for each in better
        ]
    return "\n".join(lines).replace(SPACE, " ") + "\n"


def _verdict(claim: ClaimResult) -> str:
    words = [f"{SIGNS[claim.outcome]}: {claim.evidence}", claim.elsewhere]
    words.append(f"on the post's machine: {claim.machine}" if claim.machine else "")
    return ". ".join(word for word in words if word)


def _row(cells: Sequence[str]) -> str:
    texts = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(texts)} |"
