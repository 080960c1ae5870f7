"""The demo: a year of flights, workers killed with and without a hot standby, every row checked. Run by ./scripts/demo.

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
RATE_PER_S = 12_000
STRUCK = "traffic"
"""The operator whose worker is killed; its results are watched."""
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
            killed_ms = self._feed(files["flights"], flights.height)
            self._call("cancel", "flights", "--drain")
            took = time.time() - started
            messages = self._results()
        finally:
            self._call("down")
        silences = {
            "takeover_ms": self._silence_ms(messages["totals"], killed_ms[0], killed_ms[1]),
            "restart_ms": self._silence_ms(messages["totals"], killed_ms[1]),
        }
        self._say(
            f"A killed worker's query was silent for {silences['takeover_ms']:,} ms with a hot standby, "
            f"and for {silences['restart_ms']:,} ms when its worker had to start again."
        )
        total = self._judge(messages, demo_check.expected(flights, weather))
        counts = {name: getattr(total, name) for name in ("results", "lost", "duplicated", "wrong")}
        return counts | {"records_per_s": round((flights.height + weather.height) / took)} | silences

    # -- steps --------------------------------------------------------------------------------------------------------

    def _feed(self, path: Path, count: int) -> list[int]:
        """Sends the flights at a steady rate and kills, twice, the worker that computes `totals`; when, in ms.

        The first time the unit has a hot standby; then it has none.
        """
        feeding = subprocess.Popen(
            self._command("send", "flights", str(path), "--rate", str(self._rate)), stdout=subprocess.DEVNULL
        )
        ends = time.monotonic() + count / self._rate
        killed = [self._kill(feeding, ends - count / self._rate * 0.7)]
        self._until(feeding, ends - count / self._rate * 0.45)
        self._call("scheme", "flights", str(self._unit(STRUCK)["unit"]), "none")
        killed.append(self._kill(feeding, ends - count / self._rate * 0.35))
        if feeding.wait(timeout=120) != 0:
            raise SystemExit("the flights could not be sent")
        return killed

    def _kill(self, feeding: subprocess.Popen[bytes], when: float) -> int:
        self._until(feeding, when)
        copies = self._unit(STRUCK)["copies"]
        killed_ms = int(time.time() * 1000)
        self._call("kill", next(copy["worker"] for copy in copies if copy["role"] == "primary"))
        return killed_ms

    def _until(self, feeding: subprocess.Popen[bytes], when: float) -> None:
        while feeding.poll() is None and time.monotonic() < when:
            time.sleep(0.05)

    def _unit(self, operator: str) -> dict[str, Any]:
        """The unit in which an operator runs."""
        units = json.loads(self._ask("units", "flights", "--json"))
        found: dict[str, Any] = next(
            unit for unit in units if any(task.startswith(f"{operator}-") for task in unit["tasks"])
        )
        return found

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

    def _silence_ms(self, rows: Sequence[Message], killed_ms: int, until_ms: int | None = None) -> int:
        """The longest silence after a kill, of the query whose worker died."""
        times = sorted(message.timestamp()[1] for message in rows)
        ends = times[-1] if until_ms is None else until_ms
        return max((after - before for before, after in pairwise(times) if killed_ms < after <= ends), default=-1)

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
