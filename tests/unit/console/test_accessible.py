"""The console for those who read by ear or by keyboard: axe finds nothing serious on any page.

axe-core comes in a wheel (the group `test` of pyproject.toml); it runs in a page of a headless Chromium.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

from bench.rig.browser import Browser, Chromium, program
from tests.support.shown_console import ShownConsole

AXE = "HOLDFAST_TEST_AXE"
"""Variable that names another axe.min.js, such as one of a newer release."""
RUN = """axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`))"""
STILL = "document.getAnimations().every((one) => one.animationName === 'flow')"
"""No colour is on its way to another one; what flows along the edges of a graph is a line."""
PAGES = ("/", "/jobs/counted", "/takeovers", "/incidents", "/events", "/jobs/counted/checkpoints",
         "/jobs/counted/results", "/jobs/counted/dead-letters", "/jobs/counted/events",
         "/submit", "/api", "/jobs/none")  # fmt: skip
WIDE, PHONE = (1280, 860), (390, 844)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here: apt-get install chromium"),
]


def axe() -> str:
    if named := os.environ.get(AXE):
        return Path(named).read_text()
    spec = importlib.util.find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        pytest.skip("there is no axe_core_python here: ./scripts/setup installs it")
    return Path(spec.origin).with_name("axe.min.js").read_text()


@pytest.fixture(scope="session")
def browser(chromium: Chromium, console: ShownConsole) -> Iterator[Browser]:
    with Browser(*WIDE, within=chromium) as made:
        made.open(console.url)
        console.ask("fail")
        made.open(f"{console.base}/takeovers")
        made.until("document.querySelectorAll('.bar .phase').length === 3", "there is a takeover")
        yield made


def serious(browser: Browser) -> list[str]:
    browser.value(f"window.axe ? 0 : (0, eval)({json.dumps(axe())})")
    found: list[str] = browser.value(RUN)
    return found


@pytest.mark.parametrize(
    ("size", "dark", "pages"),
    [
        # Each page, each size and each theme is in one of these two.
        pytest.param(WIDE, False, PAGES[::2], id="wide-light"),
        pytest.param(PHONE, True, PAGES[1::2], id="phone-dark"),
        pytest.param(WIDE, False, PAGES[1::2], id="other-pages-wide-light", marks=pytest.mark.long),
        pytest.param(PHONE, True, PAGES[::2], id="other-pages-phone-dark", marks=pytest.mark.long),
        pytest.param(WIDE, True, PAGES, id="wide-dark", marks=pytest.mark.long),
        pytest.param(PHONE, False, PAGES, id="phone-light", marks=pytest.mark.long),
    ],
)
def test_axe_finds_nothing_serious(
    console: ShownConsole, browser: Browser, size: tuple[int, int], dark: bool, pages: tuple[str, ...]
) -> None:
    browser.size(*size, mobile=size == PHONE)
    browser.dark(dark)
    found: dict[str, Any] = {}
    for path in pages:
        browser.open(console.base + path)
        browser.until("document.querySelector('main .card, main .figures') !== null", f"{path} is shown")
        browser.until("!document.body.innerText.includes('A moment, please')", f"{path} is read")
        browser.until("document.querySelector('.cm-content:not([aria-label])') === null", "the editor has its colours")
        browser.until(STILL, f"{path} stands")
        if wrong := serious(browser):
            found[path] = wrong
    assert found == {}


def test_axe_finds_nothing_serious_in_a_dialog(console: ShownConsole, browser: Browser) -> None:
    browser.size(*WIDE)
    browser.open(f"{console.base}/jobs/counted")
    browser.until(
        "[...document.querySelectorAll('button')].some((one) => one.innerText.includes('Actions'))", "buttons"
    )
    browser.value("[...document.querySelectorAll('button')].find((one) => one.innerText.includes('Actions')).click()")
    browser.until("document.querySelector('.q-menu .q-item') !== null", "the menu is open")
    browser.value("[...document.querySelectorAll('.q-item')].find((one) => one.innerText.includes('Drain')).click()")
    browser.until("document.querySelector('[role=alertdialog]') !== null", "it asks")
    browser.until(STILL, "nothing moves")
    assert serious(browser) == []
    assert browser.value("document.querySelector('.q-dialog').contains(document.activeElement)"), (
        "the keyboard is there"
    )
