"""A viewer of the console: clicks what a person clicks, in a headless Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.rig.browser import Browser
from tests.support.commands import DEADLINE_S


class Viewer:
    """base: address of the console, without a last slash."""

    def __init__(self, browser: Browser, base: str) -> None:
        self.browser, self.base = browser, base

    def open(self, path: str) -> None:
        self.browser.open(self.base + path)
        self.sees("main .card, main .figures")

    def sees(self, selector: str, said: str = "", seconds: float = DEADLINE_S) -> None:
        """Waits until an element of that kind is there, with that text in it."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        self.until(
            f"{found}.some((one) => one.textContent.includes({json.dumps(said)}))", f"{selector}: {said}", seconds
        )

    def until(self, script: str, what: str, seconds: float = DEADLINE_S) -> None:
        try:
            self.browser.until(script, what, seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}; the page says: {self.browser.value('document.body.innerText')}") from None

    def click(self, selector: str, said: str) -> None:
        """Clicks the element of that kind with that text, once it is there."""
        self.sees(selector, said)
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        script = f"{found}.find((one) => one.textContent.includes({json.dumps(said)})).click()"
        self.browser.value(script)

    def choose(self, label: str, option: str) -> None:
        """An option of a list in the dialog."""
        fields = "[...document.querySelectorAll('[role=alertdialog] .q-field')]"
        self.browser.press(f"{fields}.find((one) => one.textContent.includes({json.dumps(label)}))")
        self.click(".q-menu .q-item", option)
        self.until("document.querySelector('.q-menu') === null", "the list has closed")

    def menu(self, button: str, item: str) -> None:
        self.click("main button", button)
        self.click(".q-menu .q-item", item)

    @contextmanager
    def asked(self, label: str, done: str) -> Iterator[Callable[[str, str], None]]:
        """A dialog that asks before it acts: what is chosen in it, then the confirmation, until the page says so."""
        self.sees("[role=alertdialog]")
        self.until(
            "document.getAnimations().every((one) => one.animationName === 'flow')", "the dialog is in its place"
        )
        yield self.choose
        self.click("[role=alertdialog] button", label)
        self.sees(".q-notification", done)
