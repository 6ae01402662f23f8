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
from support.waiting import await_truth

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


def texts(browser: Browser, css: str) -> list[str]:
    """The texts of these parts of drawings, as far as they are shown."""
    script = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".filter((x) => x.getClientRects().length)"
        ".map((x) => x.textContent)"
    )
    found: list[str] = browser.driver.execute_script(script, css)
    return found


def ticks(browser: Browser, chart: str) -> list[str]:
    """The seconds below a chart."""
    return texts(browser, f'figure[data-chart="{chart}"] .tick text')


def paths(browser: Browser) -> list[str]:
    """Where all curves, steps and cells of the charts over time are drawn."""
    script = (
        "return [...document.querySelectorAll('.over-time path')].map(x => x.getAttribute('d'))"
    )
    found: list[str] = browser.driver.execute_script(script)
    return found


def drag(browser: Browser, chart: str, start: float, end: float) -> Any:
    """Drag the mouse across a chart, from one part of its width to another, and return it."""
    area = shown(browser, f'figure[data-chart="{chart}"] > div')[0]
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
    width = area.size["width"]
    mouse = ActionChains(browser.driver)
    mouse.move_to_element_with_offset(area, int((start - 0.5) * width), 0).click_and_hold()
    mouse.move_by_offset(int((end - start) * width), 0).release().perform()
    return area


def test_all_charts_show_the_part_over_which_the_mouse_was_dragged(browser: Browser) -> None:
    before = paths(browser)
    area = drag(browser, "throughput", 0.35, 0.65)
    (bar,) = shown(browser, ".zoom span")
    assert bar.text == "seconds 6 to 13"
    for chart in ("throughput", "end-to-end", "backlog", "node-cpu", "delivered", "p99"):
        assert ticks(browser, chart)[:8] == [str(second) for second in range(6, 14)]
    assert paths(browser) != before
    ActionChains(browser.driver).move_to_element(area).perform()
    (tip,) = shown(browser, ".tip")
    assert tip.text.splitlines()[0] == "second 9, limit 10 (1 %)"
    ActionChains(browser.driver).double_click(area).perform()
    assert paths(browser) == before
    assert shown(browser, ".zoom") == []


def test_a_click_and_a_drag_of_some_pixels_zoom_nothing(browser: Browser) -> None:
    drag(browser, "throughput", 0.5, 0.503)
    assert shown(browser, ".zoom") == []
    assert shown(browser, ".choice") == []


def test_labels_of_steps_stay_with_their_steps(browser: Browser) -> None:
    drag(browser, "backlog", 0.7, 0.95)
    labels = texts(browser, 'figure[data-chart="backlog"] .step text')
    assert [label for label in labels if label.startswith("limit")] == ["limit 20"] * 2


def test_keys_and_buttons_zoom_and_go_on_in_time(browser: Browser) -> None:
    def seconds() -> str:
        return str(shown(browser, ".zoom span")[0].text)

    area = shown(browser, 'figure[data-chart="throughput"] > div')[0]
    browser.driver.execute_script("arguments[0].focus()", area)
    browser.type(Keys.HOME, *[Keys.ARROW_RIGHT] * 9, "+")
    assert seconds() == "seconds 5 to 15"
    browser.type("+")
    assert seconds() == "seconds 7 to 12"
    browser.type(*[Keys.ARROW_RIGHT] * 3)
    assert seconds() == "seconds 10 to 15"
    assert shown(browser, ".tip")[0].text.startswith("second 12,")
    browser.press("Later")
    assert seconds() == "seconds 13 to 18"
    browser.press("Zoom out")
    browser.press("Earlier")
    assert seconds() == "seconds 5 to 15"
    browser.driver.execute_script("arguments[0].focus()", area)
    browser.type(Keys.ESCAPE)
    assert shown(browser, ".zoom") == []


def test_two_fingers_zoom_on_a_phone(browser: Browser) -> None:
    browser.resize(400)
    ask = browser.driver.execute_cdp_cmd
    ask("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    area = shown(browser, 'figure[data-chart="throughput"] > div')[0]
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
    box = browser.driver.execute_script("return arguments[0].getBoundingClientRect()", area)
    middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def touch(kind: str, apart: int = 0) -> None:
        points = [{"x": middle + side * apart, "y": y, "id": side + 1} for side in (-1, 1)]
        points = [] if kind == "touchEnd" else points
        ask("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 20)
    for apart in (30, 40, 60):
        touch("touchMove", apart)
    touch("touchEnd")
    (span,) = shown(browser, ".zoom span")
    first, last = (int(word) for word in span.text.split() if word.isdigit())
    assert last - first == 7
    assert "8" in ticks(browser, "end-to-end")
    assert "0" not in ticks(browser, "end-to-end")
    width = "return document.documentElement.scrollWidth"
    assert browser.driver.execute_script(width) == 400
    browser.press("Whole run")
    ask("Emulation.setTouchEmulationEnabled", {"enabled": False})
    browser.resize(1280)


def test_the_latency_of_any_queue_is_drawn(browser: Browser) -> None:
    """At first the slowest one."""
    figure = shown(browser, "figure[data-queues]")[0]
    choice, area = (figure.find_element("css selector", css) for css in ("select", "div"))

    def told(*keys: str) -> list[str]:
        browser.driver.execute_script("arguments[0].focus()", area)
        browser.type(*keys)
        return str(shown(browser, ".tip")[0].text).splitlines()

    assert choice.get_attribute("value") == "2"
    assert told(Keys.HOME)[:3] == ["0 % took at most", "limit 10 (1 %)", "7.0 ms"]
    assert told(Keys.END)[1:3] == ["limit 10 (1 %)", "125 ms, the largest"]
    choice.send_keys("queue 0")
    assert told(Keys.HOME, *[Keys.ARROW_RIGHT] * 4)[:3] == [
        "90 % took at most",
        "limit 10 (1 %)",
        "14 ms",
    ]
    assert len(shown(browser, "figure[data-queues] .curve")) == 4
    browser.resize(400)
    widths = (
        "return [arguments[0].clientWidth, arguments[0].querySelector('svg').viewBox.baseVal.width]"
    )
    await_truth(lambda: len(set(browser.driver.execute_script(widths, area))) == 1)
    browser.resize(1280)


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
