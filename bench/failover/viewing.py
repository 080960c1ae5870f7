"""A viewer of a job whose workers are struck: a console and a Chromium on the page of the job."""

from __future__ import annotations

from pathlib import Path

from bench.rig.browser import Browser
from bench.rig.console_process import ConsoleProcess
from bench.rig.followed import Followed, MeasureFailed

LIVE = "document.querySelector('.top .chip.good') !== null && document.querySelector('.graph .operator') !== null"
CALM_S = 4.0
"""Seconds after a viewer has come or left, within which the load of its start is over."""


class Viewing:
    """A viewer, absent until `look`. The Chromium stands for one on the viewer's own machine.

    Both processes end with the viewer: without a viewer, no part of a console runs.
    """

    def __init__(self, folder: Path, kafka: str, job: Followed) -> None:
        self._folder = folder
        self._kafka = kafka
        self._job = job
        self._console: ConsoleProcess | None = None
        self._browser: Browser | None = None

    def __enter__(self) -> Viewing:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def look(self, on: bool) -> None:
        """Opens the viewer's page, or closes it. Raises MeasureFailed."""
        if on == (self._browser is not None):
            return
        if on:
            self._come()
        else:
            self._leave()
        self._job.watch(CALM_S)

    def confirm(self) -> None:
        """Raises MeasureFailed if the viewer's page is not live."""
        if self._browser is not None:
            self._until_live(self._browser)

    def _come(self) -> None:
        self._console = ConsoleProcess(self._folder / "console", self._kafka)
        self._browser = browser = Browser(elsewhere=True)
        browser.open(self._console.url)
        browser.open(f"{self._console.base}/jobs/{self._job.plan.job}")
        self._until_live(browser)

    def _leave(self) -> None:
        browser, console, self._browser, self._console = self._browser, self._console, None, None
        if browser is not None:
            browser.close()
        if console is not None:
            console.close()

    def _until_live(self, browser: Browser) -> None:
        try:
            browser.until(LIVE, "the page of the job is live", 60.0)
        except TimeoutError as error:
            raise MeasureFailed(str(error)) from None
