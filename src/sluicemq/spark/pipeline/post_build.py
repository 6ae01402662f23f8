"""The entry point for a whole post: makes a page and a table of claims of its runs' directories.

OUT/post.json                  scale, length of the steps
OUT/BROKER/RUN/run.json ...    a run, as `sluicemq lab post` leaves it
OUT/post.html                  the page
OUT/claims.md                  every claim with its verdicts, for documents
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from sluicemq.errors import Refused
from sluicemq.lab.post_plan import is_done
from sluicemq.spark.pipeline.build import analyse_run
from sluicemq.spark.pipeline.ingest import load_info, open_run
from sluicemq.spark.pipeline.post_markdown import claims_document
from sluicemq.spark.pipeline.post_page import render
from sluicemq.spark.pipeline.post_results import Post, PostBroker, label_of, order
from sluicemq.spark.pipeline.results import RunResult
from sluicemq.spark.session import spark_session


def build_post(
    out: Path, master: str, memory: str, progress: Callable[[str], None] = lambda _: None
) -> Sequence[Path]:
    """Analyse the post in `out`, write its page and its claims there, and return their paths.
    Raises Refused when none of its runs is done."""
    progress("Starting Spark")
    with spark_session(master, memory) as session:
        post = read_post(session, out, progress)
    progress("Writing the page")
    texts = {out / "post.html": render(post), out / "claims.md": claims_document(post)}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def read_post(session: SparkSession, out: Path, progress: Callable[[str], None]) -> Post:
    """Analyse every run below `out` that is done. Raises Refused when there is none."""
    brokers: dict[str, list[RunResult]] = {}
    for directory in sorted(path.parent for path in out.glob("*/*/run.json")):
        if not is_done(directory):
            continue
        progress(f"Analysing {directory.relative_to(out)}")
        info = load_info(directory)
        run = analyse_run(open_run(session, directory), label_of(info))
        brokers.setdefault(f"{info['product']} {info['version']}", []).append(run)
    if not brokers:
        raise Refused(f"{out} holds no run of the post that is done")
    made = [PostBroker(name, sorted(runs, key=order)) for name, runs in brokers.items()]
    return Post(sorted(made, key=lambda broker: (not broker.is_ours, broker.name)))
