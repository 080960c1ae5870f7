"""The demo: a job on a year of flights, a worker killed in the middle, every row checked. Run by ./scripts/demo.

It uses the product as a person would, by its commands, and prints each before it runs it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

from schemas.topics import Partition, TopicSpec
from services.cli import demo_check, demo_data
from services.cli.demo_check import Verdict
from services.log.kafka import KafkaLog
from services.log.protocol import Message

JOB = Path(__file__).parents[2] / "compose" / "jobs" / "flights.yaml"
RATE_PER_S = 20_000
SINKS = ("delays", "podium", "storms", "sight", "totals")
_console = Console(highlight=False)


class Demo:
    """One run, in a data directory of its own."""

    def __init__(self, folder: Path, workers: int, rate: int) -> None:
        self._folder, self._workers, self._rate = folder, workers, rate
        self._holdfast = [str(Path(sys.executable).parent / "holdfast")]
        self._at = ["--data-dir", str(folder / "cluster")]

    def run(self) -> dict[str, Any]:
        """Returns the summary."""
        self._say("Preparing a year of flights and weather, in the order of time ...")
        flights, weather = demo_data.flights(), demo_data.weather()
        files = {
            name: demo_data.write(frame, self._folder / f"{name}.ndjson")
            for name, frame in (("flights", flights), ("weather", weather))
        }
        try:
            self._call("up", "--detach", "--workers", str(self._workers))
            self._call("send", "weather", str(files["weather"]), "--create-topics", "--partitions", "1")
            self._create("flights", partitions=2)
            self._call("submit", str(JOB), "--create-topics")
            started = time.time()
            victim, killed_ms = self._feed(files["flights"], flights.height)
            self._call("cancel", "flights", "--drain")
            took = time.time() - started
            messages = self._results()
        finally:
            self._call("down")
        takeover = self._takeover_ms(messages["totals"], killed_ms)
        self._say(f"Killed {victim}; the query that it computed was silent for {takeover:,} ms, then went on.")
        return self._judge(
            messages, demo_check.expected(flights, weather), flights.height + weather.height, took, takeover
        )

    # -- steps --------------------------------------------------------------------------------------------------------

    def _feed(self, path: Path, count: int) -> tuple[str, int]:
        """Sends the flights at a steady rate and kills, half-way, the worker that computes `totals`."""
        feeding = subprocess.Popen(
            self._command("send", "flights", str(path), "--rate", str(self._rate)), stdout=subprocess.DEVNULL
        )
        half = time.monotonic() + count / self._rate / 2
        while feeding.poll() is None and time.monotonic() < half:
            time.sleep(0.05)
        victim = self._runs("traffic")
        killed_ms = int(time.time() * 1000)
        self._call("kill", victim)
        if feeding.wait(timeout=120) != 0:
            raise SystemExit("the flights could not be sent")
        return victim, killed_ms

    def _runs(self, operator: str) -> str:
        """The worker on which an operator runs."""
        units = json.loads(self._ask("units", "flights", "--json"))
        unit = next(unit for unit in units if any(task.startswith(f"{operator}-") for task in unit["tasks"]))
        return str(unit["copies"][0]["worker"])

    def _results(self) -> dict[str, list[Message]]:
        log = self._log()
        partitions = log.topics()
        return {
            topic: [message for index in range(partitions[topic]) for message in log.scan(Partition(topic, index))]
            for topic in SINKS
        }

    def _create(self, topic: str, partitions: int) -> None:
        """An empty topic, so that the job can start before the data come."""
        self._log().create([TopicSpec(topic, partitions)])

    def _log(self) -> KafkaLog:
        described = json.loads((self._folder / "cluster" / "cluster.json").read_text())
        return KafkaLog(described["bootstrap_servers"], {}, "demo")

    # -- outcome ------------------------------------------------------------------------------------------------------

    def _takeover_ms(self, rows: Sequence[Message], killed_ms: int) -> int:
        """The longest silence, after the kill was asked for, of the query whose worker died."""
        times = sorted(message.timestamp()[1] for message in rows)
        return max((after - before for before, after in pairwise(times) if after > killed_ms), default=-1)

    def _judge(
        self,
        messages: dict[str, list[Message]],
        expected: dict[str, demo_check.Expected],
        records: int,
        took: float,
        takeover: int,
    ) -> dict[str, Any]:
        total = Verdict()
        for query, want in expected.items():
            verdict = demo_check.compare((message.value() or b"" for message in messages[query]), want)
            self._say(
                f"  {query:8} {verdict.results:6,} rows compared: {verdict.lost} lost, "
                f"{verdict.duplicated} duplicated, {verdict.wrong} wrong"
            )
            total.add(verdict)
        return {
            "results": total.results,
            "lost": total.lost,
            "duplicated": total.duplicated,
            "wrong": total.wrong,
            "records_per_s": round(records / took),
            "takeover_ms": takeover,
        }

    # -- commands -----------------------------------------------------------------------------------------------------

    def _command(self, *words: str) -> list[str]:
        return [*self._holdfast, *words, *self._at]

    def _call(self, *words: str) -> None:
        _console.print(f"[bold]$ holdfast {' '.join(words)}[/bold]")
        if subprocess.run(self._command(*words), check=False).returncode != 0:
            raise SystemExit(f"holdfast {words[0]} failed; logs are in {self._folder / 'cluster' / 'logs'}")

    def _ask(self, *words: str) -> str:
        return subprocess.run(self._command(*words), check=True, capture_output=True, text=True).stdout

    def _say(self, text: str) -> None:
        _console.print(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a job on a year of flights, kills a worker, checks every row.")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=int, default=RATE_PER_S, help="flights fed a second (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        summary = Demo(folder, options.workers, options.rate).run()
    finally:
        if options.keep:
            _console.print(f"data and logs are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(summary), flush=True)
    return 0 if not (summary["lost"] or summary["duplicated"] or summary["wrong"]) else 1


if __name__ == "__main__":
    sys.exit(main())
