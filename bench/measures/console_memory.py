"""Memory of the console's process while a viewer goes through its pages for long: whether it is flat.

Source: docs/console.md "What it costs". The job is the one of `console`, with a tenth of its updates: memory is asked
for, and the machine is not to be busy for an hour. Lists of events and takeovers are full from the beginning.
"""

from __future__ import annotations

import time
from itertools import count, cycle

from bench.rig.browser import Browser, program
from bench.rig.cluster import BenchCluster
from bench.rig.console_process import ConsoleProcess
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.machine import rss_mib
from bench.rig.memory import Memory
from bench.rig.scale import Scale
from bench.rig.staged import Staged
from holdfast.services.view.live import MOST_EVENTS

EACH_S = 1.0
"""Between two heartbeats of each of five workers."""
TOLD = 3
"""Events of a takeover."""
PAGE_S = 15.0
"""Seconds between two pages, with a takeover during each."""
PAGES = ("/jobs/{}", "/takeovers", "/", "/jobs/{}/checkpoints", "/events", "/incidents", "/jobs/{}/events", "/submit")


def console_memory(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    if program() is None:
        raise MeasureFailed("there is no Chromium here: apt-get install chromium")
    staged = Staged(cluster.folder, EACH_S)
    staged.start()
    try:
        for at in range(MOST_EVENTS // TOLD + 1):
            staged.take_over(at)
        console = ConsoleProcess(cluster.folder / "console", staged.bootstrap_servers)
        try:
            return _followed(console, staged, cluster, scale.minutes)
        finally:
            console.close()
    finally:
        staged.stop()


def _followed(console: ConsoleProcess, staged: Staged, cluster: BenchCluster, minutes: float) -> Figures:
    pages, takeovers, memory = cycle(PAGES), count(MOST_EVENTS // TOLD + 1), Memory(minutes)
    with Browser() as browser:
        browser.open(console.url)
        began_s = time.monotonic()
        while (minute := (time.monotonic() - began_s) / 60) <= minutes:
            browser.open(console.base + next(pages).format(staged.plan.job))
            browser.until("document.querySelector('.chip.good') !== null", "the page says that it is live")
            staged.take_over(next(takeovers))
            browser.until(f"performance.now() > {1000 * PAGE_S:g}", "the page was looked at")
            if said := memory.note(minute, rss_mib(console.pid)):
                cluster.say(said)
    return memory.figures()
