"""The console as people meet it: by keyboard, in their time zone, read-only, after its restart, from another site."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

from bench.rig.browser import Browser, Chromium, program
from holdfast.services.console.installation import YIELDS
from tests.support.deadlines import HANG_S
from tests.support.shown_console import ShownConsole

FOCUSED = "(document.activeElement?.innerText || '').trim().split('\\n').pop().toLowerCase()"
"""Last line of the text in which the keyboard is: a button may begin with the name of its icon."""
PRESSES = 60
"""Keys after which everything of a page was reached."""
SHIFTS = """new Promise((done) => {
  let moved = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries()) moved += one.value; })
    .observe({type: 'layout-shift', buffered: true});
  setTimeout(() => done(moved), 100);
})"""
"""Share of the screen by which parts of the page have jumped since it was opened: Chromium's own measure."""
GOOD_SHIFT = 0.1
"""Bound below which a page counts as steady (Core Web Vitals)."""
PLAN = "[...document.querySelectorAll('h2')].some((one) => one.innerText === 'The plan')"
AFTER_THE_NAME = """(() => {
  document.querySelector('.cm-content').focus();
  getSelection().selectAllChildren(document.querySelector('.cm-line'));
  getSelection().collapseToEnd();
})()"""
"""Puts the cursor of the editor to the end of its first line."""
STILL = "document.getAnimations().every((one) => one.animationName === 'flow')"
FOREIGN = """(async () => {
  const base = BASE;
  const found = [];
  for (const method of ['GET', 'POST']) {
    try {
      const asked = {method, mode: 'no-cors', credentials: 'include'};
      const answer = await fetch(`${base}/api/v1/workers/worker-1/kill`, asked);
      found.push(answer.type);
    } catch { found.push('refused'); }
  }
  const socket = new WebSocket(base.replace('http', 'ws') + '/_nicegui_ws/socket.io/?EIO=4&transport=websocket');
  found.push(await new Promise((done) => {
    socket.onopen = () => done('opened');
    socket.onerror = () => done('refused');
  }));
  return found;
})()"""
"""Answers that a page of another site gets to a question, to an action, and to a web socket."""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here: apt-get install chromium"),
]


@pytest.fixture
def browser(chromium: Chromium, console: ShownConsole) -> Iterator[Browser]:
    with Browser(within=chromium) as made:
        made.open(console.url)
        until(made, "document.querySelector('main .card') !== null", "the overview")
        yield made


def until(browser: Browser, script: str, what: str) -> None:
    try:
        browser.until(script, what, HANG_S)
    except TimeoutError as error:
        raise AssertionError(f"{error}; the page says: {browser.value('document.body.innerText')}") from None


def tab_to(browser: Browser, said: str) -> None:
    """The keyboard's way to the element with that text."""
    for _ in range(PRESSES):
        browser.key("Tab")
        if browser.value(FOCUSED) == said:
            return
    raise AssertionError(f"{said} is not reached by {PRESSES} tabs")


def test_a_job_is_opened_and_an_action_asked_for_by_keyboard_alone(console: ShownConsole, browser: Browser) -> None:
    tab_to(browser, "counted")
    browser.key("Enter")
    until(browser, "location.pathname === '/jobs/counted'", "the page of the job")
    until(browser, "document.querySelector('.graph .operator') !== null", "its graph")
    tab_to(browser, "actions")
    browser.key("Enter")
    until(browser, "document.querySelector('.q-menu .q-item') !== null", "the menu")
    until(browser, STILL, "the menu stands")
    tab_to(browser, "drain")
    browser.key("Enter")
    until(browser, "document.querySelector('[role=alertdialog]') !== null", "the dialog asks")
    until(browser, STILL, "the dialog stands")
    until(browser, "document.querySelector('.q-dialog').contains(document.activeElement)", "the keyboard is in it")
    browser.key("Escape")
    until(browser, "document.querySelector('[role=alertdialog]') === null", "nothing was done")


@pytest.mark.parametrize("path", ["/", "/takeovers", "/jobs/counted", "/jobs/counted/results", "/submit"])
def test_no_page_jumps_while_it_comes(console: ShownConsole, browser: Browser, path: str) -> None:
    browser.open(console.base + path)
    until(browser, "document.querySelector('main .card, main .figures') !== null", f"{path} is shown")
    until(browser, "!document.body.innerText.includes('A moment, please')", f"{path} is read")
    until(browser, "performance.now() > 2000", "what comes later has come")
    assert browser.value(SHIFTS) < GOOD_SHIFT


def test_times_are_those_of_the_reader_and_the_exact_one_is_on_hover(console: ShownConsole, browser: Browser) -> None:
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    browser.open(f"{console.base}/jobs/counted/dead-letters")
    until(browser, "document.querySelector('time') !== null", "a time")
    shown = "document.querySelector('time')"
    exact = browser.value(f"{shown}.title")
    wanted = browser.value(f"new Date('{exact}').toLocaleTimeString([], {{hour12: false}})")
    assert exact.endswith("Z")
    assert browser.value(f"{shown}.textContent").endswith(wanted)
    assert wanted[:5] != exact[11:16], "Kolkata is half an hour beside the world"


def test_the_console_yields_a_processor_to_the_workers_that_it_shows(console: ShownConsole) -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, console.process.pid) == min(19, ours + YIELDS)


def test_a_console_that_is_read_only_offers_no_action(chromium: Chromium) -> None:
    with ShownConsole("--read-only") as console, Browser(within=chromium) as browser:
        browser.open(console.url)
        until(browser, "document.querySelector('main .card') !== null", "the overview")
        assert "Submit" not in browser.value("document.querySelector('.nav').innerText")
        browser.open(f"{console.base}/jobs/counted")
        until(browser, "document.querySelector('.graph .operator') !== null", "the graph")
        assert browser.value("[...document.querySelectorAll('.page button')].map((one) => one.innerText)") == []
        browser.open(f"{console.base}/submit")
        until(browser, "document.querySelector('main .card') !== null", "a page says why")
        assert "read-only" in browser.value("document.querySelector('main').innerText")
        assert browser.value("document.querySelector('.cm-content')") is None


def test_a_page_is_live_again_after_the_restart_of_the_console(chromium: Chromium) -> None:
    first = ShownConsole()
    try:
        with Browser(within=chromium) as browser:
            browser.open(first.url)
            until(browser, "document.querySelector('.top .chip.good') !== null", "it is live")
            first.close()
            until(browser, "document.body.innerText.toLowerCase().includes('connection lost')", "the page says so")
            with ShownConsole(first.port) as second:
                second.ask("fail")
                until(
                    browser,
                    "document.querySelector('.top .chip.good') !== null"
                    " && !document.body.innerText.toLowerCase().includes('connection lost')",
                    "it is live without a hand",
                )
                browser.open(f"{second.base}/takeovers")
                until(browser, "document.querySelectorAll('.bar .phase').length === 3", "what came meanwhile is there")
    finally:
        if first.process.poll() is None:
            first.close()


def test_a_page_of_another_site_gets_nothing(console: ShownConsole, browser: Browser, tmp_path: Path) -> None:
    """The browser has the console's cookie; the page comes from another port and another name of this machine."""
    (tmp_path / "index.html").write_text("<p>another site</p>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    site = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    try:
        for name in ("127.0.0.1", "localhost"):
            browser.open(f"http://{name}:{site.server_port}/")
            found = browser.value(FOREIGN.replace("BASE", f"'{console.base}'"))
            assert found == ["refused", "refused", "refused"], name
    finally:
        site.shutdown()
        thread.join()
        site.server_close()
    browser.open(f"{console.base}/")
    until(browser, "document.querySelector('.top .chip.good') !== null", "the console's own page still has all")


def test_a_mistake_is_said_at_its_line_while_one_types_and_the_plan_is_drawn_once_it_is_mended(
    console: ShownConsole, browser: Browser
) -> None:
    browser.open(f"{console.base}/submit")
    until(browser, PLAN, "the plan of the example")
    until(browser, "document.querySelector('.cm-content') !== null", "the editor")
    assert (
        browser.value("new Set([...document.querySelectorAll('.cm-line span')].map((one) => one.className)).size") > 1
    ), "names and values have colours"
    browser.value(AFTER_THE_NAME)
    browser.call("Input.insertText", text="nonsense: 1")
    until(browser, "document.querySelector('.problems .at')?.innerText.startsWith('line ')", "the mistake at its line")
    assert browser.value("document.querySelector('.problems .at').innerText") == "line 1"
    for _ in "nonsense: 1":
        browser.key("Backspace")
    until(browser, "document.querySelector('.problems') === null", "it is mended")
    until(browser, PLAN, "the plan again")


def test_a_job_is_tried_on_a_pasted_sample(console: ShownConsole, browser: Browser) -> None:
    browser.open(f"{console.base}/submit")
    until(browser, PLAN, "the plan of the example")
    browser.value("[...document.querySelectorAll('button')].find((one) => one.innerText === 'Try').click()")
    until(browser, "document.querySelector('[aria-label=\"Rows of the try\"] td') !== null", "the rows of the sample")
    assert "UA" in browser.value("document.querySelector('[aria-label=\"Rows of the try\"]').innerText")
