"""Goal: the page's script tells figures and hands out tables, and the page fits a phone. Method:
Debian's chromium on a page of made-up results."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from sluicemq.spark.pipeline.report import write_report
from sluicemq.spark.pipeline.results import Analysis
from sluicemq.spark.pipeline.store import result_tables
from support.browser import HOW_TO_GET, Browser, browsing, is_there

from .records import make_analysis, make_run, make_step

pytestmark = pytest.mark.skipif(not is_there(), reason=HOW_TO_GET.upper())

HOSTILE = '</script>"><img src=x onerror=window.harmed=1>, =1+1'
KEEP = """
window.kept = [];
URL.createObjectURL = (file) => { window.kept.push(file); return "#"; };
HTMLAnchorElement.prototype.click = function () { window.named = this.download; };
"""
"""Keeps files that are handed out instead of saving them."""


@pytest.fixture(scope="module")
def results() -> Analysis:
    steps = [make_step(10, 600, percent=1), make_step(20, 990, number=1, percent=2)]
    return make_analysis(make_run(steps, label="before"), make_run(steps, label=HOSTILE))


@pytest.fixture(scope="module")
def somebody(results: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    page = tmp_path_factory.mktemp("page") / "report.html"
    write_report(results, page)
    with browsing(page.as_uri()) as found:
        yield found


@pytest.fixture
def browser(somebody: Browser) -> Iterator[Browser]:
    """Somebody who has just opened the page; at the end the browser has nothing to complain of, has
    loaded nothing and came to no harm."""
    somebody.driver.get(somebody.url)
    yield somebody
    assert somebody.complaints() == []
    asked = "return [performance.getEntriesByType('resource').length, window.harmed ?? null]"
    assert somebody.driver.execute_script(asked) == [0, None]


def shown(browser: Browser, css: str) -> list[Any]:
    """The elements that are on the page and not hidden."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].filter((x) => x.checkVisibility())"
    )
    found: list[Any] = browser.driver.execute_script(script, css)
    return found


def test_the_second_under_the_pointer_is_told_and_marked_everywhere(browser: Browser) -> None:
    area = shown(browser, 'figure[data-chart="throughput"] > div')[0]
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
    assert shown(browser, ".tip") == []
    ActionChains(browser.driver).move_to_element(area).perform()
    (tip,) = shown(browser, ".tip")
    lines = tip.text.splitlines()
    assert lines[0] in ("second 9, limit 10 (1 %)", "second 10, limit 20 (2 %)")
    assert lines[1:] == ["published", "1,000/s", "delivered", "1,000/s"]
    marks = shown(browser, ".cursor")
    assert len(marks) == len(shown(browser, "figure[data-chart]")) > 10
    places = {mark.get_attribute("x1") for mark in marks}
    assert len(places) == 1


def test_figures_of_nodes_are_told_by_their_names(browser: Browser) -> None:
    area = shown(browser, 'figure[data-chart="node-leaders"] > div')[0]
    browser.driver.execute_script("arguments[0].focus()", area)
    browser.type(Keys.HOME)
    (tip,) = shown(browser, ".tip")
    assert tip.text.splitlines() == ["second 0, limit 10 (1 %)", "n1", "4", "n2", "3", "n3", "3"]


def test_arrow_keys_go_from_second_to_second(browser: Browser) -> None:
    area = shown(browser, 'figure[data-chart="p99"] > div')[0]
    browser.driver.execute_script("arguments[0].focus()", area)
    for key, second in (
        (Keys.HOME, 0),
        (Keys.ARROW_RIGHT, 1),
        (Keys.END, 19),
        (Keys.ARROW_LEFT, 18),
    ):
        browser.type(key)
        (tip,) = shown(browser, ".tip")
        assert tip.text.splitlines() == [f"second {second}", "before", "10 ms", HOSTILE, "10 ms"]
    browser.type(Keys.ESCAPE)
    assert shown(browser, ".tip, .cursor") == []


@pytest.mark.parametrize("form", ["csv", "json"])
def test_tables_are_handed_out_whole(browser: Browser, results: Analysis, form: str) -> None:
    browser.driver.execute_script(KEEP)
    for table, (columns, rows) in result_tables(results).items():
        for button in shown(browser, f'.download[data-table="{table}"] button[value="{form}"]'):
            browser.driver.execute_script("arguments[0].click()", button)
            run = button.find_element("xpath", "..").get_attribute("data-run")
            mine = (
                rows
                if run is None
                else [x for x in rows if x["run"] == results.runs[int(run)].label]
            )
            text = browser.driver.execute_script("return window.kept.pop().text()")
            if form == "json":
                assert json.loads(text) == json.loads(json.dumps(mine))
            else:
                head, *read = csv.reader(io.StringIO(text))
                assert head == list(columns)
                assert [len(row) for row in read] == [len(columns)] * len(mine)
                assert [row[0] for row in read] == [str(row[head[0]]) for row in mine]


def test_a_phone_shows_all_of_it(browser: Browser) -> None:
    browser.resize(400)
    widths = "return [document.documentElement.scrollWidth, innerWidth]"
    assert browser.driver.execute_script(widths) == [400, 400]
    assert shown(browser, "svg.broad") == []
    assert len(shown(browser, "svg.narrow")) > 10
    browser.resize(1280)
    assert shown(browser, "svg.narrow") == []
