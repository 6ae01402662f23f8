"""Debian's chromium, driven by selenium with Debian's chromedriver, as somebody at the page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

from selenium import webdriver
from selenium.common.exceptions import (
    NoAlertPresentException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from support.waiting import await_truth

BROWSER: Final = shutil.which("chromium")
DRIVER: Final = shutil.which("chromedriver")
HOW_TO_GET: Final = "chromium is missing: `make debian`, or apt-get install chromium-driver"
FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
TABS_MAX: Final = 40
LOOK_S: Final = 0.1
"""How often a page is looked at: asking it costs."""


def is_there() -> bool:
    """Whether there is a browser to test with."""
    return BROWSER is not None and DRIVER is not None


class Browser:
    """Somebody at the page at `url`."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        """Open the page and log in with the keyboard."""
        self.driver.get(self.url)
        self.await_element("input[name=username]")
        self.type(user, Keys.TAB, password, Keys.ENTER)
        self.await_element("header nav a")

    def log_out(self) -> None:
        self.press("Log out")
        self.await_element("input[name=username]")

    def go(self, view: str, *parts: str) -> None:
        """Show a view, and wait until it has its title."""
        place = "/".join([view, *(quote(part, safe="") for part in parts)])
        self.driver.execute_script("location.hash = arguments[0]", f"#/{place}")
        self.await_element("main h1")

    def type(self, *keys: str) -> None:
        """Press keys, whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, is_there: Callable[[Any], bool]) -> None:
        """Go on with the tabulator until what has the focus is the right thing."""
        for _ in range(TABS_MAX):
            self.type(Keys.TAB)
            if is_there(self.driver.switch_to.active_element):
                return
        raise AssertionError("the tabulator does not lead there")

    def press(self, text: str, within: str = "body") -> None:
        """Click the button with this text or label."""
        for button in self.driver.find_elements(By.CSS_SELECTOR, f"{within} button"):
            if text in (button.text, button.get_attribute("aria-label")):
                button.click()
                return
        raise AssertionError(f"there is no button {text!r}")

    def fill(self, form: str, **values: str) -> None:
        """Type into the fields of the form whose button has this text, and press that."""
        for found in self.driver.find_elements(By.CSS_SELECTOR, "main form"):
            if found.text.endswith(form):
                for name, value in values.items():
                    found.find_element(By.NAME, name).send_keys(value)
                found.find_element(By.CSS_SELECTOR, "button").click()
                return
        raise AssertionError(f"there is no form {form!r}")

    def confirm(self) -> None:
        """Say yes to the question that is asked."""
        await_truth(self.accepted, LOOK_S)

    def accepted(self) -> bool:
        try:
            self.driver.switch_to.alert.accept()
        except NoAlertPresentException:
            return False
        return True

    def await_element(self, css: str) -> WebElement:
        """The element, as soon as there is one."""
        return await_truth(lambda: self.found(css), LOOK_S)

    def found(self, css: str) -> WebElement | None:
        try:
            return self.driver.find_element(By.CSS_SELECTOR, css)
        except NoSuchElementException:
            return None

    @property
    def text(self) -> str:
        """All text of the page, also what only a screen reader sees."""
        return str(self.driver.execute_script("return document.body.textContent"))

    def await_text(self, *texts: str) -> None:
        """Wait until all of these are on the page."""
        await_truth(lambda: all(text in self.text for text in texts), LOOK_S)

    def tile(self, title: str) -> str:
        """The figure above this title; "" when there is none."""
        for tile in self.driver.find_elements(By.CSS_SELECTOR, ".tile"):
            try:
                if tile.find_element(By.TAG_NAME, "span").text == title:
                    return tile.find_element(By.TAG_NAME, "b").text
            except StaleElementReferenceException:
                return ""  # it was drawn anew meanwhile
        return ""

    def resize(self, width: int, height: int = 900) -> None:
        """Make what is seen as large as this, in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def complaints(self) -> list[str]:
        """What the browser has complained of since it was asked last: errors in scripts, what the
        policy for contents forbids. That nobody was logged in at the start is none."""
        found = [each["message"] for each in self.driver.get_log("browser")]
        return [each for each in found if "/api/whoami - Failed to load" not in each]


@contextmanager
def browsing(url: str) -> Iterator[Browser]:
    """A browser of one's own, with nothing remembered."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver, url)
    finally:
        driver.quit()
