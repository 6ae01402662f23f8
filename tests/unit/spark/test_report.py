"""The page, the files and the console tables, from made-up results."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from sluicemq.spark.pipeline.console import print_tables
from sluicemq.spark.pipeline.display_table import Table
from sluicemq.spark.pipeline.drawing import COLOURS, draw_svg, legend_above
from sluicemq.spark.pipeline.plots import save_overview_plot
from sluicemq.spark.pipeline.report import render, warnings
from sluicemq.spark.pipeline.report_answer import verification_words, verified_words
from sluicemq.spark.pipeline.report_tables import claims_table, queues_table, steps_tables
from sluicemq.spark.pipeline.results import (
    Analysis,
    CrossCheck,
    Latencies,
    Percentiles,
    StepClass,
)
from sluicemq.spark.pipeline.store import (
    QUEUE_DISTRIBUTION,
    columns_of,
    flatten,
    result_tables,
    write_results,
)
from support.undrawn import nothing_drawn

from .records import make_analysis, make_info, make_run, make_step

VOID = {"meta", "br", "link"}
SCRIPTS = ('<script type="application/json" id="data">', "<script>")
"""The page's own: what it knows, and what it does with it."""
STYLES = files("sluicemq.spark.pipeline") / "page" / "report.css"


class Tags(HTMLParser):
    """Checks that what is opened is closed, and collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        wanted = ("src", "href", "xlink:href", "data", "srcset")
        self.fetched += [value or "" for name, value in attrs if name in wanted]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def results() -> Analysis:
    """A run without and one with confirms."""
    without = make_run([make_step(None)], label="no confirms", confirms=False)
    limited = make_run(
        [
            make_step(10, 600, number=0, percent=1),
            make_step(20, 990, number=1, percent=2, latency_ms=20),
            make_step(
                200,
                1000,
                number=2,
                percent=20,
                latency_ms=2000,
                delivered_per_s=900,
                step_class=StepClass.BACKLOG_GROWING,
            ),
        ]
    )
    return make_analysis(without, limited)


@pytest.fixture(scope="module")
def page(results: Analysis) -> str:
    """The report on both, without drawings."""
    with nothing_drawn():
        return render(results)


@pytest.fixture(scope="module")
def drawn(results: Analysis) -> str:
    """The report on one of them, with its drawings."""
    return render(make_analysis(results.runs[1]))


@pytest.mark.parametrize("kind", ["page", "drawn"])
def test_the_page_is_well_formed_and_needs_nothing_else(
    request: pytest.FixtureRequest, kind: str
) -> None:
    page: str = request.getfixturevalue(kind)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert all(value.startswith(("#", "data:")) for value in tags.fetched)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page
    assert page.count("<script") == len(SCRIPTS)
    script = page[page.index(SCRIPTS[1]) :]
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|WebSocket|EventSource)\b", script)


def test_the_answer_comes_first(page: str) -> None:
    body = page[page.index("<main>") :]
    assert body.index("at most 20 unconfirmed messages") < body.index("<svg")
    assert body.index("nothing lost of 60,000") < body.index("<svg")


def test_the_page_shows_no_password_and_no_bare_none(page: str) -> None:
    assert "secret" not in page
    assert "amqp://127.0.0.1:5672" in page
    text = re.sub(r"<[^>]+>", " ", page[page.index("<main>") :])
    assert not re.search(r"\b(None|nan|inf)\b", text)


def test_the_page_states_the_pipelines_rate(page: str) -> None:
    assert "120,000 rows/s" in page
    assert "3.0 s for starting the session" in page


def test_pictures_take_their_colours_from_the_page(drawn: str) -> None:
    svg = drawn[drawn.index("<svg") :]
    left = set(re.findall(r"#[0-9a-f]{6}\b", svg))
    assert not left.intersection(COLOURS.values())
    assert set(re.findall(r"var\(--([a-z0-9]+)\)", svg)) <= set(COLOURS)
    dark, _, _ = (
        STYLES.read_text(encoding="utf-8").partition("prefers-color-scheme: dark")[2].partition("}")
    )
    assert set(COLOURS) <= set(re.findall(r"--([a-z0-9-]+):", dark))
    assert len(set(COLOURS.values())) == len(COLOURS)


def data_of(page: str) -> dict[str, Any]:
    """What the page's script reads."""
    text = page[page.index(SCRIPTS[0]) + len(SCRIPTS[0]) :]
    found: dict[str, Any] = json.loads(text[: text.index("</script>")])
    return found


def test_the_script_finds_what_the_charts_name(results: Analysis, page: str) -> None:
    data = data_of(page)
    assert [run["label"] for run in data["runs"]] == [run.label for run in results.runs]
    columns = {False: "per_second", True: "per_node"}
    charts = re.findall(r'data-chart="([^"]+)" data-runs="([0-9 ]+)" data-end="([0-9.]+)"', page)
    wanted = {"throughput", "end-to-end", "confirm", "delivered", "p99", "node-cpu", "node-flow"}
    assert wanted <= {name for name, _, _ in charts}
    for name, runs, end in charts:
        chart = data["charts"][name]
        known = data["tables"][columns[chart["by_node"]]]["columns"]
        assert all(line["column"] in known for line in chart["lines"])
        assert all(int(number) < len(results.runs) for number in runs.split())
        assert float(end) > 0
    offered = set(re.findall(r'data-table="([^"]+)"', page))
    assert offered <= data["tables"].keys()
    assert {"per_second", "per_step", "per_run", "differences", "claims"} <= offered


def test_the_tables_of_the_page_are_the_results(results: Analysis, page: str) -> None:
    tables = data_of(page)["tables"]
    for name, (columns, rows) in result_tables(results).items():
        if name == QUEUE_DISTRIBUTION:
            continue
        assert tables[name]["columns"] == list(columns)
        named = [dict(zip(columns, row, strict=True)) for row in tables[name]["rows"]]
        assert named == json.loads(json.dumps(rows))


@pytest.mark.usefixtures("undrawn")
def test_queues_have_a_curve_for_each_step(results: Analysis, page: str) -> None:
    """Places in a curve stand for shares; a queue without messages in a step has an empty curve."""
    run = results.runs[1]
    silent = [x for x in run.queue_distribution if (x.queue, x.step) != (1, run.steps[0].step)]
    shown = data_of(page)["runs"][1]["queues"]
    assert [each["queue"] for each in shown] == [0, 1, 2]
    assert all(len(each["curves"]) == len(run.steps) for each in shown)
    points = [x for x in run.queue_distribution if (x.queue, x.step) == (2, run.steps[0].step)]
    assert shown[2]["curves"][0] == [float(f"{point.latency_ms:.3g}") for point in points]
    page = render(make_analysis(replace(run, queue_distribution=silent)))
    assert data_of(page)["runs"][0]["queues"][1]["curves"][0] == []
    assert "<figure data-queues" not in render(make_analysis(replace(run, queue_distribution=[])))


def test_every_plot_is_there_for_phones_too(page: str) -> None:
    assert page.count('<svg class="broad"') == page.count('<svg class="narrow"') > 10


@pytest.mark.usefixtures("undrawn")
def test_several_runs_are_drawn_over_one_another(results: Analysis, page: str) -> None:
    overlay = re.findall(r'data-chart="delivered" data-runs="0 1"', page)
    assert len(overlay) == 1
    assert 'data-runs="0 1"' not in render(make_analysis(results.runs[0]))


@pytest.mark.usefixtures("undrawn")
def test_nodes_are_shown_where_there_are_several(results: Analysis, page: str) -> None:
    titles = ("CPU", "Memory", "Connections in flow", "Leaders")
    for title in titles:
        assert len(re.findall(f"<b>{title} o[nf] +each node,</b>", page)) == len(results.runs)
    alone = [row for row in results.runs[0].nodes if row.node == "n1"]
    assert "each node" not in render(make_analysis(replace(results.runs[0], nodes=alone)))


@pytest.mark.usefixtures("undrawn")
def test_distributions_are_shown_where_there_are_any(results: Analysis, page: str) -> None:
    assert page.count("Where latencies lay,") == len(results.runs)
    assert page.count("Distribution of the end-to-end latency,") == len(results.runs) + 1
    bare = make_analysis(replace(results.runs[0], heat=[], distribution=[]))
    assert "Where latencies lay," not in render(bare)


def test_queues_are_listed_for_who_asks(results: Analysis, page: str) -> None:
    assert page.count("<summary>Queue by queue: 3 queues</summary>") == len(results.runs)
    table = queues_table(results.runs[1])
    assert [table.name.cell(row).text for row in table.rows] == ["0", "1", "2"]
    cells = [column.cell(2).text for column in table.columns]
    assert cells == ["2,400", "7.0\u00a0ms", "7.0\u00a0ms", "7.0\u00a0ms"]


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_is_about_what_differs() -> None:
    before = make_run([make_step(10, 1000), make_step(20, 1000, number=1)], label="before")
    after = make_run([make_step(10, 1200), make_step(20, 1010, number=1)], label="after")
    page = render(make_analysis(before, after), comparison=True)
    assert "<h1>after against before</h1>" in page
    assert "+20\u00a0% better" in page
    assert "+1\u00a0%<" in page
    assert "was\u00a01,000/s" in page
    assert "Step by step" not in page
    assert "Let each publisher" not in page


def test_ids_in_pictures_do_not_clash(drawn: str) -> None:
    found = [re.findall(r'<clipPath id="([^"]+)"', svg) for svg in drawn.split("<svg")[1:]]
    ids = [one for svg in found for one in set(svg)]
    assert ids
    assert len(ids) == len(set(ids))


@pytest.mark.usefixtures("undrawn")
def test_a_report_without_a_limit_says_why(results: Analysis) -> None:
    page = render(make_analysis(results.runs[0]))
    assert "do not name an in-flight limit" in page
    assert "No confirms: confirms were off." in page


HOSTILE = (
    "</title></style><script>alert(1)</script> & \"><img src=x onerror='a'> {{ 7*7 }} $\\frac$ ]]>"
)


def spoiled(text: str) -> Analysis:
    """Everything that a broker, a machine or a user may have named is called `text`."""
    run = make_run(
        [make_step(10, class_reason=text), make_step(20, number=1, step_class=StepClass.SWINGING)],
        label=text,
        product=text,
        version=text,
        name=text,
        queue_type=text,
        target=[f"amqp://guest:secret@host/{text}"],
        stopped=text,
        started_at=text,
        clocks=[{"host": text, "error_ns": 1, "drift_ns": None}],
        worker_costs=[{"role": text, "index": 0, "cpu_ns": 97, "wall_ns": 100}],
    )
    checks = [CrossCheck(name=text, exact=100, from_rows=90, agrees=False)]
    run = replace(run, directory=Path(text), checks=checks, no_knee_reason=text)
    knee = make_run([make_step(10)]).knee
    assert knee is not None
    words = {"reason": text, "caveat": text, "prefetch_reason": text, "ack_reason": text}
    advised = replace(run, knee=replace(knee, **words))
    claim = replace(make_analysis(run).claims[0], evidence=text, elsewhere=text, text=text)
    analysis = make_analysis(run, advised)
    cost = replace(analysis.pipeline, master=text, memory=text, spark_version=text)
    return replace(analysis, claims=[claim, *analysis.claims[1:]], pipeline=cost)


def tags_of(page: str) -> list[str]:
    """All tags in order, as a browser finds them; and the page ends where it should."""
    found: list[str] = []
    reader = HTMLParser()
    reader.handle_starttag = lambda tag, attrs: found.append(f"{tag} {[name for name, _ in attrs]}")  # type: ignore[method-assign]
    reader.handle_endtag = lambda tag: found.append(f"/{tag}")  # type: ignore[method-assign]
    reader.feed(page)
    reader.close()
    return found


@pytest.mark.usefixtures("undrawn")
def test_markup_in_names_is_text() -> None:
    """Whatever things are called, the page has the same tags as with tame names."""
    page = render(spoiled(HOSTILE))
    assert tags_of(page) == tags_of(render(spoiled("tame")))
    assert page.count("<script") == len(SCRIPTS)
    assert "<img" not in page
    assert "{{ 7*7 }}" in page
    shown: list[str] = []
    reader = HTMLParser()
    reader.handle_data = shown.append  # type: ignore[method-assign]
    reader.feed(page)
    assert "".join(shown).count("<script>alert(1)</script>") > 20


def test_markup_in_pictures_is_text() -> None:
    def fill(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([0, 1], label=HOSTILE)
        axes.set_title(HOSTILE)
        legend_above(axes)

    picture = draw_svg(fill, 2.0, HOSTILE)
    for part in (picture.broad, picture.narrow):
        assert not re.search("<(?:script|img)", part)
        assert part.count("&lt;script&gt;") == 3


def test_a_terminal_shows_what_the_page_shows(results: Analysis, page: str) -> None:
    """The same cells, of those columns for which it has room."""
    out = io.StringIO()
    print_tables(results, Console(file=out, width=300))
    terminal = out.getvalue()
    shown = unescape(re.sub(r"<[^>]+>", " ", page))
    run = results.runs[1]
    tables: list[Table[Any]] = [*steps_tables(run), claims_table(results.claims[:3])]
    seen = 0
    for table in tables:
        for column in (table.name, *table.columns):
            for row in table.rows:
                cell = column.cell(row)
                for text in (cell.text, *(chip.text for chip in cell.chips)):
                    assert text in shown
                    if column.terminal:
                        seen += 1
                        assert text in terminal
    assert seen > 30


def test_loss_is_shouted() -> None:
    found = dict(make_info()["verification"]) | {"lost": 3, "duplicates": 2}
    good, text = verification_words(found, confirms=True)  # type: ignore[arg-type]
    assert not good
    assert text.startswith("3 LOST of 60,000 confirmed messages")
    assert "2 delivered twice" in text


def test_a_drain_that_gave_up_is_not_good() -> None:
    found = dict(make_info()["verification"]) | {"left_in_queues": 5, "drained": False}
    good, text = verification_words(found, confirms=False)  # type: ignore[arg-type]
    assert not good
    assert "5 left in the queues" in text


def test_what_nobody_can_tell_is_not_called_nothing_lost() -> None:
    found = dict(make_info()["verification"]) | {"unaccounted": 7, "drained": False}
    good, text = verification_words(found, confirms=True)  # type: ignore[arg-type]
    assert not good
    assert text.startswith("7 UNACCOUNTED FOR of 60,000 confirmed messages")
    found["lost"] = 2
    _, text = verification_words(found, confirms=True)  # type: ignore[arg-type]
    assert text.startswith("2 LOST and 7 UNACCOUNTED FOR of 60,000")


@pytest.mark.usefixtures("undrawn")
def test_files_that_are_not_whole_are_said_first() -> None:
    run = make_run([make_step(10)])
    check = CrossCheck(name="delivered", exact=100, from_rows=90, agrees=False)
    broken = replace(run, checks=[check])
    assert verified_words(run)[0]
    good, text = verified_words(broken)
    assert not good
    assert text.startswith("its files are not whole, they have 90 of 100 delivered messages; by")
    page = render(make_analysis(broken))
    assert page.index("90 of 100 delivered") < page.index("<svg")


@pytest.mark.usefixtures("undrawn")
def test_files_that_cannot_be_read_are_said_first_and_named() -> None:
    run = replace(make_run([make_step(10)]), damaged=["published/part-1.parquet: bad page"])
    good, text = verified_words(run)
    assert not good
    assert text.startswith("its files are not whole, 1 cannot be read; by the counts nothing lost")
    page = render(make_analysis(run))
    assert page.index("1 cannot be read") < page.index("<svg")
    assert "Damaged, and left out: published/part-1.parquet: bad page" in page


@pytest.mark.usefixtures("undrawn")
def test_the_answer_to_a_run_that_ended_early_is_no_limit() -> None:
    run = make_run([make_step(10), make_step(20)], stopped="interrupted")
    page = render(make_analysis(run))
    assert "do not name an in-flight limit" in page
    assert "the run ended early (interrupted)" in page


def test_what_spoils_the_figures_is_said() -> None:
    run = make_run(
        [make_step(10, warm_up_included=True)],
        stopped="the broker closed the connection",
        worker_costs=[{"role": "publisher", "index": 0, "cpu_ns": 97, "wall_ns": 100}],
    )
    run = replace(
        run,
        checks=[CrossCheck(name="delivered", exact=100, from_rows=90, agrees=False)],
        latencies=Latencies(confirm_service=Percentiles(never=7, negative=2)),
    )
    text = "\n".join(warnings(run))
    for words in (
        "ended early: the broker closed",
        "100 counted, 90 recorded",
        "2 latencies were below 0",
        "7 of the messages after warm-up were never confirmed",
        "Too short",
        "97\u00a0% of a core",
    ):
        assert words in text
    assert warnings(make_run([make_step(10)])) == []


def test_the_overview_plot_is_a_picture(results: Analysis, tmp_path: Path) -> None:
    path = tmp_path / "new" / "overview.png"
    save_overview_plot(results, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_results_are_left_as_parquet_and_json(results: Analysis, tmp_path: Path) -> None:
    write_results(results, tmp_path)
    for name in (
        "per_second",
        "per_node",
        "per_step",
        "per_run",
        "knee",
        "claims",
        "checks",
        "pipeline",
    ):
        rows = json.loads((tmp_path / f"{name}.json").read_text())
        assert pq.read_table(tmp_path / f"{name}.parquet").to_pylist() == rows
        assert rows
    steps = json.loads((tmp_path / "per_step.json").read_text())
    assert steps[0]["end_to_end_response_p99_ms"] == 10.0
    assert steps[0]["imbalance_queues_cv"] == 0.0


def test_tables_without_rows_keep_their_columns(results: Analysis, tmp_path: Path) -> None:
    write_results(make_analysis(results.runs[0]), tmp_path)
    table = pq.read_table(tmp_path / "knee.parquet")
    assert table.num_rows == 0
    assert "in_flight_limit" in table.column_names


def test_columns_are_those_of_flattened_records(results: Analysis) -> None:
    step = results.runs[0].steps[0]
    assert list(columns_of(type(step))) == list(flatten(step))


def test_console_tables_fit_80_columns(results: Analysis) -> None:
    out = io.StringIO()
    print_tables(results, Console(file=out, width=80))
    text = out.getvalue()
    assert "Recommended in-flight limit: 20 (2\u00a0%)" in text
    assert "…" not in text
    assert "nothing lost of 60,000" in text


def test_console_says_when_there_is_no_limit(results: Analysis) -> None:
    out = io.StringIO()
    print_tables(make_analysis(results.runs[0]), Console(file=out, width=80))
    assert "No in-flight limit can be recommended" in out.getvalue()
