"""The demo: a year of flights, workers killed with and without a hot standby, every row checked. Run by ./scripts/demo.

It uses the product as a person would, by its commands, and prints each before it runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from bench.demo import check as demo_check
from bench.demo import data as demo_data
from bench.demo.check import Verdict
from schemas.topics import ClusterTopics, Partition, TopicSpec
from services.log.opening import open_log
from services.log.protocol import Log, Message

JOBS = Path(__file__).parents[2] / "compose" / "jobs"
READY_S = 300.0
"""Two sessions of Spark start, and rehearse the query."""
_console = Console(highlight=False)


class Demo:
    """One run, in a data directory of its own. struck: the operator whose worker is killed; watched: the topic of its
    results; unprotected: its scheme at the second kill."""

    job, struck, watched, unprotected = "flights", "traffic", "totals", "none"
    sinks: tuple[str, ...] = ("delays", "podium", "storms", "sight", "totals")
    partitions, rate = 2, 12_000
    patience: tuple[str, ...] = ()

    def __init__(self, folder: Path, workers: int, rate: int | None) -> None:
        self._folder, self._workers, self._rate = folder, workers, rate or self.rate
        self._holdfast = [str(Path(sys.executable).parent / "holdfast")]
        self._at = ["--data-dir", str(folder / "cluster")]

    def run(self) -> dict[str, Any]:
        """Returns the summary."""
        self._say("Preparing a year of flights and weather, in the order of time ...")
        frames = self._frames()
        files = {name: demo_data.write(frame, self._folder / f"{name}.ndjson") for name, frame in frames.items()}
        count = frames["flights"].height
        try:
            self._call("up", "--detach", "--workers", str(self._workers))
            for name in (name for name in files if name != "flights"):
                self._call("send", name, str(files[name]), "--create-topics", "--partitions", "1")
            self._create("flights", partitions=self.partitions)
            self._call("submit", str(JOBS / f"{self.job}.yaml"), "--create-topics", *self.patience)
            self._await_job()
            started = time.time()
            killed_ms = self._feed(files["flights"], count)
            self._call("cancel", self.job, "--drain")
            took = time.time() - started
            messages = self._results()
        finally:
            self._call("down")
        silences = {
            "takeover_ms": self._silence_ms(messages[self.watched], killed_ms[0], killed_ms[1]),
            "restart_ms": self._silence_ms(messages[self.watched], killed_ms[1]),
        }
        hot, restarted = ("?" if one is None else f"{one:,}" for one in silences.values())
        self._say(
            f"A killed worker's query was silent for {hot} ms with a hot standby, "
            f"and for {restarted} ms when its worker had to start again."
        )
        total = self._judge(messages, self._expected(frames))
        counts = {name: getattr(total, name) for name in ("results", "lost", "duplicated", "wrong")}
        return counts | {"records_per_s": round(sum(frame.height for frame in frames.values()) / took)} | silences

    # -- the job ------------------------------------------------------------------------------------------------------

    def _frames(self) -> dict[str, pl.DataFrame]:
        """By topic; flights come at a steady rate, others before them."""
        return {"flights": demo_data.flights(), "weather": demo_data.weather()}

    def _expected(self, frames: dict[str, pl.DataFrame]) -> dict[str, demo_check.Expected]:
        return demo_check.expected(frames["flights"], frames["weather"])

    def _await_job(self) -> None:
        """Until it takes in records; rows may wait for it in the topic."""

    def _struck(self) -> dict[str, Any]:
        """The unit whose worker is killed."""
        units = json.loads(self._ask("units", self.job, "--json"))
        found: dict[str, Any] = next(
            unit for unit in units if any(task.startswith(f"{self.struck}-") for task in unit["tasks"])
        )
        return found

    # -- steps --------------------------------------------------------------------------------------------------------

    def _feed(self, path: Path, count: int) -> list[int]:
        """Sends the flights at a steady rate and kills, twice, the worker that computes `watched`; when, in ms.

        The first time the unit has a hot standby; then it has none.
        """
        feeding = subprocess.Popen(
            self._command("send", "flights", str(path), "--rate", str(self._rate)), stdout=subprocess.DEVNULL
        )
        ends = time.monotonic() + count / self._rate
        killed = [self._kill(feeding, ends - count / self._rate * 0.75)]
        self._until(feeding, ends - count / self._rate * 0.55)
        self._call("scheme", self.job, str(self._struck()["unit"]), self.unprotected)
        killed.append(self._kill(feeding, ends - count / self._rate * 0.5))
        if feeding.wait(timeout=120) != 0:
            raise SystemExit("the flights could not be sent")
        return killed

    def _kill(self, feeding: subprocess.Popen[bytes], when: float) -> int:
        self._until(feeding, when)
        copies = self._struck()["copies"]
        killed_ms = int(time.time() * 1000)
        self._call("kill", next(copy["worker"] for copy in copies if copy["role"] == "primary"))
        return killed_ms

    def _until(self, feeding: subprocess.Popen[bytes], when: float) -> None:
        while feeding.poll() is None and time.monotonic() < when:
            time.sleep(0.05)

    def _results(self) -> dict[str, list[Message]]:
        log = self._log()
        partitions = log.topics()
        return {
            topic: [message for index in range(partitions[topic]) for message in log.scan(Partition(topic, index))]
            for topic in self.sinks
        }

    def _create(self, topic: str, partitions: int) -> None:
        """An empty topic, so that the job can start before the data come."""
        self._log().create([TopicSpec(topic, partitions)])

    def _log(self) -> Log:
        described = json.loads((self._folder / "cluster" / "cluster.json").read_text())
        return open_log(described["bootstrap_servers"], ClusterTopics().prefix, "demo")

    # -- outcome ------------------------------------------------------------------------------------------------------

    def _silence_ms(self, rows: Sequence[Message], killed_ms: int, until_ms: int | None = None) -> int | None:
        """The longest silence after a kill, of the query whose worker died; None: all was over by then."""
        times = sorted(message.timestamp()[1] for message in rows)
        ends = times[-1] if until_ms is None else until_ms
        return max((after - before for before, after in pairwise(times) if killed_ms < after <= ends), default=None)

    def _judge(self, messages: dict[str, list[Message]], expected: dict[str, demo_check.Expected]) -> Verdict:
        total = Verdict()
        for query, want in expected.items():
            verdict = demo_check.compare((message.value() or b"" for message in messages[query]), want)
            self._say(
                f"  {query:8} {verdict.results:6,} rows compared: {verdict.lost} lost, "
                f"{verdict.duplicated} duplicated, {verdict.wrong} wrong"
            )
            total.add(verdict)
        return total

    # -- commands -----------------------------------------------------------------------------------------------------

    def _command(self, *words: str) -> list[str]:
        return [*self._holdfast, *words, *self._at]

    def _call(self, *words: str) -> None:
        _console.print(f"[bold]$ holdfast {' '.join(words)}[/bold]")
        if subprocess.run(self._command(*words), check=False).returncode != 0:
            raise SystemExit(f"holdfast {words[0]} failed; logs are in {self._folder / 'cluster' / 'logs'}")

    def _ask(self, *words: str) -> str:
        answer = subprocess.run(self._command(*words), check=False, stdout=subprocess.PIPE, text=True)
        if answer.returncode != 0:
            raise SystemExit(f"holdfast {words[0]} failed; logs are in {self._folder / 'cluster' / 'logs'}")
        return answer.stdout

    def _say(self, text: str) -> None:
        _console.print(text)


class SparkDemo(Demo):
    """The same with one operator on Spark: a model for each airport and week, fitted by a Python function."""

    job, struck, watched, unprotected = "punctuality", "models", "models", "passive"
    sinks = ("models",)
    partitions, rate = 1, 6_000
    patience = ("--timeout", "300")

    def _frames(self) -> dict[str, pl.DataFrame]:
        os.environ["HOLDFAST_PLUGINS"] = f"compose.jobs.{self.job}"
        return {"flights": demo_data.flights()}

    def _expected(self, frames: dict[str, pl.DataFrame]) -> dict[str, demo_check.Expected]:
        return demo_check.models(frames["flights"])

    def _await_job(self) -> None:
        """Until one driver runs the query and the other is ready to."""
        deadline = time.monotonic() + READY_S
        while [copy["state"] for copy in self._struck()["copies"]] != ["running", "synced"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"no standby after {READY_S:g} s; logs are in {self._folder / 'cluster' / 'logs'}")
            time.sleep(0.5)

    def _struck(self) -> dict[str, Any]:
        units = json.loads(self._ask("units", self.job, "--json"))
        found: dict[str, Any] = next(unit for unit in units if unit["unit"] == f"spark-{self.struck}-0")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="demo", description="Runs a job on a year of flights, kills a worker, checks every row."
    )
    parser.add_argument("--workers", type=int, default=3)
    rates = f"default: {Demo.rate:,}; with --spark {SparkDemo.rate:,}"
    parser.add_argument("--rate", type=int, help=f"flights fed a second ({rates})")
    parser.add_argument("--spark", action="store_true", help="the job whose operator runs on Spark, its driver killed")
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        summary = (SparkDemo if options.spark else Demo)(folder, options.workers, options.rate).run()
    finally:
        if options.keep:
            _console.print(f"data and logs are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(summary), flush=True)
    return 0 if not (summary["lost"] or summary["duplicated"] or summary["wrong"]) else 1


if __name__ == "__main__":
    sys.exit(main())
