"""Goal: who sits at the page can do and see everything there, by mouse and by keyboard, wide and
narrow, and no name of anything does harm. Method: Debian's chromium; one broker, one browser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from support.browser import HOW_TO_GET, Browser, browsing, is_there
from support.management import Managed, managed
from support.waiting import await_truth

pytestmark = pytest.mark.skipif(not is_there(), reason=HOW_TO_GET.upper())

VIEWS = {
    "overview": "Messages a second",
    "chain": "Nobody is held up.",
    "nodes": "What takes the memory",
    "connections": "Connections",
    "channels": "Channels",
    "exchanges": "amq.topic",
    "queues": "Declare a queue",
    "streams": "Streams",
    "admin": "Limits of virtual hosts",
}
HOSTILE = (
    "<script>window.harmed=1</script>",
    "\"'><img src=x onerror=window.harmed=1>",
    "<svg/onload=window.harmed=1>",
    "</textarea></title></script><body onload=window.harmed=1>",
    "javascript:window.harmed=1//",
    "{{constructor.constructor('window.harmed=1')()}}${window.harmed=1}`",
    "&lt;b&gt;&#60;i&#62;%3Cu%3E\\u003cs\\u003e",
    "../..//#/admin?a=b&c=d%2F%00",
    "\u202egnp.\u2028\t\u0301\U0001f600",
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def somebody(own: Managed) -> Iterator[Browser]:
    with browsing(own.url) as found:
        yield found


@pytest.fixture
def browser(somebody: Browser) -> Iterator[Browser]:
    """Somebody who is logged in; at the end the browser must have nothing to complain of."""
    somebody.complaints()
    somebody.log_in()
    yield somebody
    assert somebody.complaints() == []
    somebody.log_out()


def test_a_queue_from_its_declaration_to_its_end_without_a_mouse(browser: Browser) -> None:
    browser.tab_to(lambda element: element.text == "queues")
    browser.type(Keys.ENTER)
    browser.await_text("Declare a queue")
    browser.tab_to(lambda element: element.tag_name == "button" and element.text == "Name")
    browser.tab_to(lambda element: element.get_attribute("value") == "/")
    browser.type(Keys.TAB, "by keys", Keys.ENTER)
    browser.await_element("td a[href='#/queue/%2F/by%20keys']")
    browser.go("queues")  # from the top again
    browser.await_element("td a")
    browser.tab_to(lambda element: element.text == "by keys")
    browser.type(Keys.ENTER)
    browser.await_text("Queue by keys in /")
    browser.tab_to(lambda element: element.tag_name == "textarea")
    browser.type("hello <b>there</b>", Keys.TAB, Keys.ENTER)
    await_truth(lambda: browser.tile("ready") == "1")
    await_truth(browser.await_element(".paging li:nth-child(6) .tank i").is_displayed)  # q4
    browser.tab_to(lambda element: element.text == "Get")
    browser.type(Keys.ENTER)
    browser.await_text("hello <b>there</b>")
    browser.tab_to(lambda element: element.text == "Purge")
    browser.type(Keys.ENTER)
    browser.confirm()
    await_truth(lambda: browser.tile("ready") == "0")
    browser.press("Delete")
    browser.confirm()
    await_truth(lambda: browser.driver.current_url.endswith("#/queues"))
    await_truth(lambda: browser.found("td a") is None)


def test_the_keyboard_stays_where_it_is_while_a_list_changes(
    browser: Browser, own: Managed
) -> None:
    own.do("PUT", "queues/%2F/m", json={})
    browser.go("queues")
    browser.await_element("td a")
    browser.tab_to(lambda element: element.text == "m")
    own.do("PUT", "queues/%2F/before", json={})
    await_truth(lambda: "before" in browser.text)
    assert browser.driver.switch_to.active_element.text == "m"
    for name in ("m", "before"):
        own.do("DELETE", f"queues/%2F/{name}")


def test_every_page_is_there_at_every_width_and_readable_aloud(browser: Browser) -> None:
    for width in (1280, 400):
        browser.resize(width)
        for view, text in VIEWS.items():
            browser.go(view)
            browser.await_text(text)
            seen = browser.driver.execute_script(UNREADABLE)
            assert seen == {"width": width, "unnamed": []}, (view, width)
            current = browser.await_element("nav a[aria-current=page]")
            assert current.text == view
    browser.resize(1280)


UNREADABLE = """
const all = document.querySelectorAll("button, input, select, textarea, a, [role=img], meter");
const isNamed = (each) => each.textContent.trim() || each.ariaLabel || each.labels?.length;
const unnamed = [...all].filter((each) => !isNamed(each)).map((each) => each.outerHTML);
return {width: document.documentElement.scrollWidth, unnamed};
"""


def test_numbers_move_while_messages_come(browser: Browser, own: Managed) -> None:
    own.do("PUT", "queues/%2F/moving", json={"durable": True})
    browser.go("queue", "/", "moving")
    body = {"routing_key": "moving", "payload": "x", "payload_encoding": "string", "properties": {}}
    for count in (1, 2, 3):
        own.do("POST", "exchanges/%2F/amq.default/publish", json=body)
        await_truth(lambda wanted=str(count): browser.tile("ready") == wanted)
    browser.go("overview")
    await_truth(lambda: browser.tile("ready") == "3")
    browser.go("chain")
    browser.await_text("1 queues", "message store")
    own.do("DELETE", "queues/%2F/moving")


def test_an_administrator_sets_everything(browser: Browser, own: Managed) -> None:
    browser.go("admin")
    browser.await_text("Definitions")
    browser.fill("Set user", name="anna", password="secret", tags="management")
    browser.await_element("button[aria-label='Delete anna']")
    browser.fill("Add virtual host", name="jobs", description="of anna")
    browser.await_text("of anna")
    browser.fill(
        "Set permissions", user="anna", vhost="jobs", configure="a.*", write="b.*", read="c.*"
    )
    browser.await_text("b.*")
    browser.fill(
        "Set policy", vhost="jobs", name="short", pattern="^s", definition='{"max-length": 5}'
    )
    browser.await_text('{"max-length":5}')
    browser.fill("Set limit of virtual host", vhost="jobs", value="11")
    browser.await_element("button[aria-label='Delete the limit max-connections of jobs']")
    browser.fill("Set limit of user", user="anna", value="7")
    browser.await_element("button[aria-label='Delete the limit max-connections of anna']")
    assert own.get("vhost-limits/jobs") == [{"vhost": "jobs", "value": {"max-connections": 11}}]
    assert own.get("policies/jobs/short")["definition"] == {"max-length": 5}
    browser.fill("Set policy", vhost="jobs", name="bad", pattern="(", definition="{}")
    await_truth(lambda: browser.await_element("#status").text)
    browser.press("Export")
    await_truth(lambda: "anna" in text_area(browser))
    browser.press("Dry run")
    browser.await_text("this would change")
    browser.press("Delete the limit max-connections of anna")
    browser.confirm()
    await_truth(lambda: own.get("user-limits/anna") == [])
    own.do("DELETE", "users/anna")
    own.do("DELETE", "vhosts/jobs")
    browser.complaints()  # of the policy that was refused


def text_area(browser: Browser) -> str:
    return str(browser.await_element("textarea").get_property("value"))


def test_who_may_not_see_a_page_is_not_led_there(somebody: Browser, own: Managed) -> None:
    own.do("PUT", "users/plain", json={"password": "p", "tags": "management"})
    own.do("PUT", "permissions/%2F/plain", json=dict.fromkeys(("configure", "write", "read"), ""))
    somebody.log_in("plain", "p")
    somebody.await_text("Messages a second")
    menu = somebody.await_element("header nav").text.split()
    assert menu == ["overview", "connections", "channels", "exchanges", "queues", "streams"]
    somebody.log_out()
    own.do("DELETE", "users/plain")


def test_names_are_text_whatever_is_in_them(browser: Browser, own: Managed) -> None:
    stream = {"arguments": {"x-queue-type": "stream"}, "durable": True}
    policy = {"pattern": "^$", "definition": {"max-length": 1}}
    rights: dict[str, Any] = dict.fromkeys(("configure", "write", "read"), ".*")
    for name in HOSTILE:
        part = quote(name, safe="")
        own.do("PUT", f"queues/%2F/{part}", json=stream)
        own.do("PUT", f"exchanges/%2F/{part}", json={"type": "topic"})
        own.do("POST", f"bindings/%2F/e/{part}/q/{part}", json={"routing_key": name})
        own.do("PUT", f"users/{part}", json={"password": "p", "tags": [name]})
        own.do("PUT", f"vhosts/{part}", json={"description": name})
        own.do("PUT", f"permissions/{part}/{part}", json=rights)
        own.do("PUT", f"policies/%2F/{part}", json=policy)
    for view in ("exchanges", "queues", "streams", "admin", "chain", "overview"):
        browser.go(view)
        browser.await_text(*(() if view in ("chain", "overview") else HOSTILE))
        assert browser.driver.execute_script("return window.harmed") is None, view
    browser.go("queues")
    browser.await_text(*HOSTILE)
    assert sorted(browser.driver.execute_script(LINKED)) == sorted(HOSTILE)
    for name in HOSTILE:
        browser.go("queue", "/", name)
        browser.await_text(f"Queue {name} in /", "(default)")
        assert browser.driver.execute_script("return window.harmed") is None, name
    markup = "script:not([src]), main img, main svg:not(.chain), iframe, object, base"
    assert browser.found(markup) is None


LINKED = """
const nameIn = (link) => decodeURIComponent(link.hash.split("/")[3]);
return [...document.querySelectorAll("td a")].map(nameIn);
"""
