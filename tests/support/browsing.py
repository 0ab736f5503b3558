"""A real browser that opens pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.remote.webelement import WebElement

from support.patience import PATIENCE_S
from support.programs import find

#: A name that would do harm if it were taken for HTML or for a part of a script.
EVIL = "</script><img src=x onerror=document.title='broken'>"


@contextmanager
def opened(profile: Path) -> Iterator[webdriver.Chrome]:
    """Open a browser with a new profile and without network requests of its own."""
    options = Options()
    options.binary_location = find("chromium") or ""
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"):
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-background-networking")
    options.add_argument("--disable-component-update")
    options.add_argument("--window-size=1200,1000")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(find("chromedriver")))
    driver.set_page_load_timeout(PATIENCE_S)
    driver.set_script_timeout(PATIENCE_S)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def browser_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser for all tests of a module, which calls it `browser`."""
    with opened(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def load(browser: webdriver.Chrome, path: Path) -> None:
    browser.get(path.as_uri())
    log: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    wrong = [entry for entry in log if entry["level"] in {"SEVERE", "ERROR"}]
    assert wrong == []


def gantt(browser: webdriver.Chrome, script: str) -> Any:
    return browser.execute_script(f"const g = window.gantts.gantt0; {script}")


def wheel(browser: webdriver.Chrome, element: WebElement, by: int, key: str = "") -> None:
    """Turn the wheel over the middle of an element, with a key held or none."""
    actions = ActionChains(browser)
    if key:
        actions.key_down(key)
    actions.scroll_from_origin(ScrollOrigin.from_element(element), 0, by)
    if key:
        actions.key_up(key)
    actions.perform()
