"""A headless Chromium, for screenshots and for tests of the console, controlled by its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from bench.rig.yielding import LEAST, yielding

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars", "--remote-debugging-port=0", "--disable-dev-shm-usage",
)  # fmt: skip
KEYS = {"Backspace": 8, "Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40}
START_S, ANSWER_S = 300.0, 300.0


def program() -> str | None:
    """The path of Chromium; None if it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """A Chromium without a page, in a folder of its own.

    elsewhere: true to give it only processor time that other processes leave, as for one on a viewer's own machine. A
        niceness of its process alone would not last: run by root, a Chromium sets the niceness of its threads.
    """

    def __init__(self, *, elsewhere: bool = False) -> None:
        found = program()
        if found is None:
            raise FileNotFoundError(f"no {' nor '.join(NAMES)} on the PATH")
        self._folder = tempfile.mkdtemp(prefix="holdfast-browser-")
        command = [found, *QUIET, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            yielding(LEAST, command) if elsewhere else command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=elsewhere,
        )
        try:
            file = Path(self._folder, "DevToolsActivePort")
            _await(file.exists, "Chromium starts")
            _await(lambda: len(file.read_text().splitlines()) == 2, "Chromium says its port and its path")
            port, path = file.read_text().splitlines()
            self.address = f"ws://127.0.0.1:{port}"
            self.path = path
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Browser:
    """A page that shares neither cookies nor anything else with other pages.

    errors: errors of its console.
    tasks_ms: tasks of the page during the trace, in milliseconds.

    Args:
        within: the Chromium of the page; None: one of its own, `elsewhere` or not.
    """

    def __init__(
        self, width: int = 1280, height: int = 860, *, elsewhere: bool = False, within: Chromium | None = None
    ) -> None:
        self._opened = ExitStack()
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.tasks_ms: list[float] = []
        self._trace: list[dict[str, Any]] = []
        self._complete = False
        self.requested: list[str] = []
        try:
            self._page = self._connect(within or self._opened.enter_context(Chromium(elsewhere=elsewhere)))
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.call("Emulation.setFocusEmulationEnabled", enabled=True)
            self.size(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(WebSocketException, OSError):
            self._opened.close()

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'", "the page is there")

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, on: bool) -> None:
        """Sets the colour scheme of the reader's system."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def value(self, script: str) -> Any:
        """Value of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, script: str, what: str, timeout_s: float = ANSWER_S) -> None:
        """Waits until the expression is true. Raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while not self.value(script):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, script: str) -> None:
        """A click of the mouse in the middle of the element that the expression gives."""
        box = self.value(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({script}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def key(self, name: str) -> None:
        """Presses a key of the keyboard, such as Tab, Enter or ArrowDown."""
        code = KEYS[name]
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code,
                      **(text if kind == "keyDown" else {}))  # fmt: skip

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Writes a screenshot.

        whole: true to include the part of the page below the window.
        """
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def trace(self, seconds: float) -> None:
        """Traces the browser's work for a time in seconds, as its developer tools do."""
        self._trace = []
        self._complete = False
        self.call("Tracing.start", categories="toplevel,devtools.timeline,__metadata", transferMode="ReportEvents")
        time.sleep(seconds)
        self.call("Tracing.end")
        while not self._complete:
            self._note(json.loads(self._page.recv(ANSWER_S)))
        self.tasks_ms = _tasks(self._trace)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._ask(self._page, method, **params)

    def _ask(self, whom: ClientConnection, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        whom.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            said = json.loads(whom.recv(ANSWER_S))
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                found: dict[str, Any] = said["result"]
                return found
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        params = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif said.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif said.get("method") == "Tracing.dataCollected":
            self._trace += params["value"]
        elif said.get("method") == "Tracing.tracingComplete":
            self._complete = True
        elif said.get("method") == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    def _connect(self, chromium: Chromium) -> ClientConnection:
        whole = self._talk(chromium.address + chromium.path)
        context = self._ask(whole, "Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        page = self._ask(whole, "Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        return self._talk(f"{chromium.address}/devtools/page/{page}")

    def _talk(self, address: str) -> ClientConnection:
        return self._opened.enter_context(connect(address, max_size=None, proxy=None, ping_interval=None))


def _tasks(trace: list[dict[str, Any]]) -> list[float]:
    """Milliseconds that each task of the threads took that draw pages."""
    main = {
        (one["pid"], one["tid"])
        for one in trace
        if one.get("name") == "thread_name" and one.get("args", {}).get("name") == "CrRendererMain"
    }
    ran = [one for one in trace if one.get("name") in ("RunTask", "ThreadControllerImpl::RunTask")]
    ran = [one for one in ran if one.get("ph") == "X" and (one["pid"], one["tid"]) in main]
    return [one["dur"] / 1000 for one in ran]


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {START_S:g} s: {what}")
        time.sleep(0.05)
