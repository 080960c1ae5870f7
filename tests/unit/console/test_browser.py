"""The console in a real browser: what changes is pushed, nothing is loaded from elsewhere, a phone shows all of it."""

from __future__ import annotations

import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

from bench.rig.browser import Browser, Chromium, program
from tests.support.shown_console import ShownConsole

PATCHED = """(async () => {
  const script = performance.getEntriesByType('resource').find((one) => one.name.endsWith('/live.js')).name;
  const { children } = await import(script);
  const parts = ['<b>a</b><i>b</i>', '<i>0</i><i>1</i><i>2</i>', 'a<i>b</i><b>c</b>', '', '<i>1<b>2</b></i><u>3</u>'];
  const wrong = [];
  for (const before of parts) for (const after of parts) {
    const into = document.createElement('div'), from = document.createElement('div');
    into.innerHTML = before;
    from.innerHTML = after;
    children(into, from);
    if (into.innerHTML !== after) wrong.push([before, after, into.innerHTML]);
  }
  return wrong;
})()"""
"""Parts that became another one, and are not what it is."""
GRAPH = "[...document.querySelectorAll('.graph .operator')].filter((one) => one.checkVisibility()).length"
OUTSIDE = """[...document.querySelectorAll('.graph .operator, .graph .edge, .graph .rate')]
  .filter((one) => one.checkVisibility())
  .map((one) => one.getBoundingClientRect()).filter(({left, right}) => left < 0 || right > innerWidth).length"""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here: apt-get install chromium"),
]


def test_a_takeover_is_pushed_to_a_page_that_loads_nothing_from_elsewhere(chromium: Chromium) -> None:
    with ShownConsole() as console, Browser(within=chromium) as browser:
        url, base = console.url, console.base
        browser.open(f"{base}/takeovers")
        assert "needs its token" in browser.value("document.body.innerText")
        browser.errors.clear()  # the browser has noted the refusal

        browser.open(url)
        browser.until("document.querySelector('td .strong')?.innerText === 'counted'", "the job is listed")
        assert "token" not in browser.value("location.href")

        browser.open(f"{base}/takeovers")
        browser.until("document.querySelector('.empty code') !== null", "there is no takeover yet")
        console.ask("fail")
        browser.until("document.querySelectorAll('.bar .phase').length === 3", "the bars came by themselves")
        browser.value("document.querySelector('details').open = true")
        assert browser.value(PATCHED) == []

        for path in ("/", "/jobs/counted", "/takeovers", "/jobs/counted/checkpoints", "/jobs/counted/dead-letters",
                     "/jobs/counted/results", "/submit", "/api"):  # fmt: skip
            browser.size(390, 844, mobile=True)
            browser.open(base + path)
            browser.until("document.querySelector('main .card, main .figures') !== null", f"{path} is shown")
            assert browser.value("document.documentElement.scrollWidth <= innerWidth"), f"{path} fits a phone"
            if path in ("/jobs/counted", "/submit"):
                browser.until(f"{GRAPH} > 0", "its graph is shown")
                assert browser.value(OUTSIDE) == 0, "nothing of the graph is beside the screen"
        browser.open(f"{base}/jobs/counted/dead-letters")
        browser.until("document.querySelector('pre.record') !== null", "the dead letter is shown")
        assert browser.value("document.title") == "counted \u00b7 holdfast", "no record's script has run"
        assert browser.errors == []
        assert {url.split("/")[2] for url in browser.requested if "//" in url} == {base.partition("//")[2]}
