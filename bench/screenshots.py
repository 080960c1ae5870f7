"""Screenshots of the console for docs/console.md, taken from a running cluster. Run by ./scripts/screenshots."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from bench.demo import data as demo_data
from bench.rig.browser import Browser
from bench.rig.followed import MeasureFailed
from bench.rig.saying import say

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "screenshots"
RATE = 60
"""Flights a second: the machine has power left for Chromium."""
PROMISED = "{default: {scheme: adaptive}, recovery_time_ms: 1000}"
"""Fault tolerance in place of the demo's scheme: takeovers are shown with their promise."""
COLOURS = 240
"""Number of colours of a picture: enough for pages without photographs, and half of the bytes."""
READY_S, CALM_S = 180.0, 20.0
WIDE, PHONE = (1280, 800), (390, 844)
BAD = b'{"flight": "not a number", "carrier": "UA", "origin": "<b>JFK</b>", "dest": "SFO"}\n{"flight": 1, "carr\n'
SHOTS = (
    ("overview", "/", WIDE, False), ("job", "/jobs/flights", WIDE, False), ("job-dark", "/jobs/flights", WIDE, True),
    ("takeovers", "/takeovers", WIDE, False), ("checkpoints", "/jobs/flights/checkpoints", WIDE, True),
    ("dead-letters", "/jobs/flights/dead-letters", (1280, 420), False), ("submit", "/submit", WIDE, False),
    ("phone", "/takeovers", PHONE, True),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scripts/screenshots", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="one of the pictures")
    only = parser.parse_args().only or [name for name, *_ in SHOTS]
    with tempfile.TemporaryDirectory(prefix="holdfast-screenshots-") as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.start()
            cluster.strike()
            cluster.picture(only)
        finally:
            cluster.close()


class Cluster:
    """A local cluster with the job of the demo, and a console."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at = ["--data-dir", str(folder / "cluster")]
        self._beside: list[subprocess.Popen[str]] = []
        self._url = ""

    def start(self) -> None:
        """Returns once every unit of the job runs with a standby."""
        flights, weather = demo_data.flights(), demo_data.weather()
        first, later = flights.head(20_000), flights.slice(20_000, RATE * 3_000)
        files = {name: self._folder / f"{name}.ndjson" for name in ("weather", "first", "later", "bad")}
        for name, rows in (("weather", weather), ("first", first), ("later", later)):
            demo_data.write(rows, files[name])
        files["bad"].write_bytes(BAD)
        self._call("up", "--detach", "--workers", "3")
        self._call("send", "weather", str(files["weather"]), "--create-topics", "--partitions", "1")
        self._call("send", "flights", str(files["first"]), "--create-topics", "--partitions", "2")
        written = (ROOT / "compose" / "jobs" / "flights.yaml").read_text()
        files["job"] = self._folder / "flights.yaml"
        files["job"].write_text(written.replace("{default: {scheme: hybrid}}", PROMISED))
        self._call("submit", str(files["job"]), "--create-topics")
        self._call("send", "flights", str(files["bad"]))
        self._begin("send", "flights", str(files["later"]), "--rate", str(RATE))
        console = self._begin("console", "--port", "0", "--json")
        assert console.stdout is not None
        self._url = json.loads(console.stdout.readline())["address"]
        self._await(lambda: all(len(unit["copies"]) == 2 for unit in self._json("units", "flights")), "standbys")

    def strike(self) -> None:
        """Kills a worker, and waits until all is as before."""
        time.sleep(CALM_S)  # the rates are means of 15 s
        leader = next(unit for unit in self._json("units", "flights") if unit["unit"] == "traffic-0")["copies"][0]
        self._call("kill", leader["worker"])
        self._await(lambda: all(len(unit["copies"]) == 2 for unit in self._json("units", "flights")), "standbys again")
        time.sleep(CALM_S)

    def picture(self, only: list[str]) -> None:
        base, _, _ = self._url.partition("/?")
        PAGES.mkdir(exist_ok=True)
        with Browser(*WIDE) as browser:
            browser.open(self._url)
            for name, path, (width, height), dark in SHOTS:
                if name not in only:
                    continue
                browser.size(width, height, mobile=width < 600)
                browser.dark(dark)
                browser.open(base + path)
                browser.until("document.querySelector('main .card, main .figures') !== null", f"{path} is shown")
                browser.until("!document.body.innerText.includes('A moment, please')", f"{path} is read")
                time.sleep(2 if path != "/jobs/flights" else 12)  # the line of rates grows by a point a second
                browser.screenshot(PAGES / f"{name}.png")
                say(f"docs/screenshots/{name}.png: {_shrink(PAGES / f'{name}.png') >> 10} KiB")
            if browser.errors:
                raise MeasureFailed(f"the browser reports errors: {browser.errors}")

    def close(self) -> None:
        for process in self._beside:
            process.terminate()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()
        self._call("down")

    def _call(self, *words: str) -> str:
        say(f"holdfast {' '.join(words)}")
        done = subprocess.run(self._command(*words), stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise MeasureFailed(f"holdfast {words[0]} has failed, see above")
        return done.stdout

    def _json(self, *words: str) -> Any:
        done = subprocess.run(self._command(*words, "--json"), stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def _begin(self, *words: str) -> subprocess.Popen[str]:
        self._beside.append(subprocess.Popen(self._command(*words), stdout=subprocess.PIPE, text=True))
        return self._beside[-1]

    def _command(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).parent / "holdfast"), *words, *self._at]

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + READY_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise MeasureFailed(f"not within {READY_S:g} s: {what}")
            time.sleep(1)


def _shrink(path: Path) -> int:
    """Reduces the colours of a picture; returns its size in bytes."""
    made = io.BytesIO()
    with Image.open(path) as whole:
        whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    path.write_bytes(made.getvalue())
    return len(made.getvalue())


if __name__ == "__main__":
    main()
