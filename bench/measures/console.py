"""The console on a job of 500 tasks with 50 updates a second: what it costs, and how smooth and prompt its page is.

Source: docs/console.md "What it costs". The job is staged (`rig/staged.py`): a machine with two cores could not run it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.rig.browser import Browser, program
from bench.rig.cluster import BenchCluster
from bench.rig.console_process import ConsoleProcess
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.machine import cpu_s, rss_mib
from bench.rig.scale import Scale
from bench.rig.staged import Staged
from holdfast.services.console.feed import REST_S

OPENINGS, TAKEOVERS = 5, 5
SHOWN = "document.querySelectorAll('.graph .operator').length >= 5 && document.querySelector('.chip.good') !== null"
"""Expression that is true once the job's page shows that it is live."""
WAIT_S = 60.0
LEFT_S = 20.0
"""Seconds within which a closed page may return; only then the console has no viewer."""


def console(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    if program() is None:
        raise MeasureFailed("there is no Chromium here: apt-get install chromium")
    staged = Staged(cluster.folder)
    staged.start()
    try:
        return _measured(staged, cluster, scale)
    finally:
        staged.stop()


def _measured(staged: Staged, cluster: BenchCluster, scale: Scale) -> Figures:
    console = ConsoleProcess(cluster.folder, staged.bootstrap_servers)
    try:
        with Browser() as browser:
            browser.open(console.url)
            page = f"{console.url.partition('/?')[0]}/jobs/{staged.plan.job}"
            usable = sorted(_opened_s(browser, page) for _ in range(OPENINGS))
            cluster.say(f"  the page of {len(staged.plan.units)} units is usable after {usable[OPENINGS // 2]:.2f} s")
            visible = sorted(_visible_s(browser, console, staged, at) for at in range(TAKEOVERS))
            browser.open(page)
            browser.until(SHOWN, "the page of the job")
            viewed = _percent(console.pid, lambda: browser.trace(scale.seconds))
            found = {
                "usable_s": round(usable[OPENINGS // 2], 2),
                "visible_ms": round(1000 * visible[TAKEOVERS // 2]),
                "longest_task_ms": round(max(browser.tasks_ms, default=0.0), 1),
                "viewed_cpu_percent": viewed,
                "rss_mib": round(rss_mib(console.pid)),
            }
        time.sleep(REST_S + LEFT_S)
        found["alone_cpu_percent"] = _percent(console.pid, lambda: time.sleep(scale.seconds))
        return found
    finally:
        console.close()


def _opened_s(browser: Browser, page: str) -> float:
    """Seconds from the request of the page until it shows the job."""
    began = time.monotonic()
    browser.open(page)
    browser.until(SHOWN, "the page of the job", WAIT_S)
    return time.monotonic() - began


def _visible_s(browser: Browser, console: ConsoleProcess, staged: Staged, at: int) -> float:
    """Seconds from the record of a takeover until a page that is open shows its bars."""
    path = f"{console.url.partition('/?')[0]}/takeovers"
    if browser.value("location.pathname") != "/takeovers":
        browser.open(path)
        browser.until("document.querySelector('main .card') !== null", "the page of takeovers", WAIT_S)
        time.sleep(2.0)  # the connection is open, and the first pictures are made
    began = time.monotonic()
    unit = staged.take_over(at)
    told = f"[...document.querySelectorAll('.bar-row strong')].some((one) => one.innerText === '{unit}')"
    browser.until(told, f"the takeover of {unit}", WAIT_S)
    return time.monotonic() - began


def _percent(pid: int, meanwhile: Callable[[], object]) -> float:
    """Share of a core that a process takes."""
    before, began = cpu_s(pid), time.monotonic()
    meanwhile()
    return round(100 * (cpu_s(pid) - before) / (time.monotonic() - began), 2)
