"""The demo: a year of flights, workers killed with and without a hot standby, every row checked. Run by ./scripts/demo.

It uses the product as a person would, by its commands, and prints each before it runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from bench.demo import check as demo_check
from bench.demo import data as demo_data
from bench.demo.check import Verdict
from bench.demo.failing import advice
from bench.demo.pace import AGAIN_S, SHARE, Kill, Wait, figures, lasts_s, pace, patience_s, silences
from bench.demo.watched import Watched
from bench.rig.feeder import Feeder
from bench.rig.followed import MeasureFailed
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.door import open_waiting
from holdfast.services.log.patience import SETTING as PATIENCE
from holdfast.services.log.patience import Patience
from holdfast.services.log.protocol import Appender, Log
from holdfast.services.view.door import Door, Whereabouts
from holdfast.services.view.lines import CopyLine, UnitLine
from holdfast.services.view.reader import named_job, read_all

JOBS = Path(__file__).parents[2] / "compose" / "jobs"
READY_S = 300.0
"""Two sessions of Spark start, and rehearse the query."""
PROBE = 8_000
"""Flights that are fed at once, to see how many the machine takes in its first second."""
DRAINS_S = 300.0
"""Seconds within which a job is drained, as for `holdfast cancel`."""
LOOK_S = 0.5
"""Seconds between two reads of the cluster, which cost processor time that a takeover needs."""
Row = tuple[int, bytes]
"""A result: its time on Kafka in milliseconds, and its JSON."""
TAKEOVER, RESTART = "takeover", "restart"
_console = Console(highlight=False)


class Demo:
    """A run, in a data directory of its own.

    struck: the operator whose worker is killed.
    watched: the topic of its results.
    unprotected: its scheme at the later kills.
    kills: of each way."""

    job, struck, watched, unprotected = "flights", "traffic", "totals", "none"
    sinks: tuple[str, ...] = ("delays", "podium", "storms", "sight", "totals")
    partitions, kills = 2, 3
    standby: tuple[str, ...] = ("synced", "running")
    """States of a standby that takes over at once."""

    def __init__(self, folder: Path, workers: int, rate: int | None, *, watch: bool = False) -> None:
        self._folder = folder
        self._workers = workers
        self._rate = rate
        self._holdfast = [str(Path(sys.executable).parent / "holdfast")]
        self._at = ["--data-dir", str(folder / "cluster")]
        self._struck_by: list[Kill] = []
        self._began_s = time.monotonic()
        self._opened: Log | None = None
        self._up_s = 0.0
        self._watched_by = Watched(self._command("console", "--json", "--port", "0"), self._say) if watch else None

    def run(self) -> dict[str, Any]:
        """Runs the demo; returns its summary. Raises MeasureFailed with the reason for which a figure is missing."""
        self._say("Preparing a year of flights and weather, in the order of time ...")
        frames = self._frames()
        lines = {name: frame.write_ndjson().encode().splitlines() for name, frame in frames.items()}
        flights = lines.pop("flights")
        try:
            began_s = time.monotonic()
            self._call("up", "--detach", "--workers", str(self._workers))
            self._up_s = time.monotonic() - began_s
            if self._watched_by is not None:
                self._watched_by.begin()
            for name, some in lines.items():
                path = demo_data.write(frames[name], self._folder / f"{name}.ndjson")
                self._call("send", name, str(path), "--create-topics", "--partitions", "1")
                self._say(f"  {len(some):,} records of {name}")
            self._create("flights", partitions=self.partitions)
            self._call("submit", str(JOBS / f"{self.job}.yaml"), "--create-topics", *self._timeout())
            self._await_job()
            started = time.time()
            fed, rate = self._feed(flights)
            self._call("cancel", self.job, "--drain", *self._timeout(DRAINS_S))
            took = time.time() - started
            messages = self._results()
            verdict = self._judge(messages, self._expected(frames | {"flights": frames["flights"].head(fed)}))
            if self._watched_by is not None:
                self._watched_by.stay()
        finally:
            self._close()
            if self._watched_by is not None:
                self._watched_by.end()
            self._call("down")
        times = [time_ms for time_ms, _ in messages[self.watched]]
        found = figures(silences(self._struck_by, times), dict.fromkeys((TAKEOVER, RESTART), self.kills))
        lost, outcome = verdict.lost, "exact" if verdict.exact else "WRONG"
        how = "once each" if self.kills == 1 else f"{self.kills} times each, median and worst"
        self._say(
            f"[bold]{outcome}[/bold]: {fed:,} flights in {took:.0f} s, fed at {rate:,} a second. "
            f"Results were silent for {found['takeover_ms']:,} ms (worst {found['takeover_worst_ms']:,}) while a "
            f"standby took over, and for {found['restart_ms']:,} ms (worst {found['restart_worst_ms']:,}) where the "
            f"worker was restarted ({how})."
        )
        return {
            "job": self.job, "records": fed, "rate_per_s": rate, "results": verdict.results, "lost": lost,
            "duplicated": verdict.duplicated, "wrong": verdict.wrong, **found, "seconds": round(took, 1),
            "whole_s": round(time.monotonic() - self._began_s, 1),
        }  # fmt: skip

    # -- differences between jobs -------------------------------------------------------------------------------------

    def _frames(self) -> dict[str, pl.DataFrame]:
        return {"weather": demo_data.weather(), "flights": demo_data.flights()}

    def _expected(self, frames: dict[str, pl.DataFrame]) -> dict[str, demo_check.Expected]:
        return demo_check.expected(frames["flights"], frames["weather"])

    def _await_job(self) -> None:
        """Waits until the struck unit has a standby that could take over."""
        self._await(self._ready, "the job runs, with a standby")

    def _is_struck(self, unit: UnitLine) -> bool:
        return any(task.startswith(f"{self.struck}-") for task in unit.tasks)

    def _probed(self, flights: list[bytes]) -> tuple[int, int]:
        """Flights that were fed at once, and how many to feed a second from then on."""
        with self._appender() as appender:
            began_s = time.monotonic()
            for index, flight in enumerate(flights[:PROBE]):
                appender.append(Partition("flights", index % self.partitions), flight)
            appender.flush(self._patience_s)
        self._await(lambda: self._counted() > 0, "the first results")
        first_s = time.monotonic()
        while (count := self._counted()) < PROBE and time.monotonic() - first_s < 1:
            time.sleep(0.05)
        taken_s = time.monotonic() - began_s
        self._await(lambda: self._counted() >= PROBE, f"results of {PROBE:,} flights")
        rate = self._rate or pace(count, taken_s, len(flights) - PROBE, lasts_s(self._up_s, 2 * self.kills))
        self._say(
            f"In its first second of results this machine took {count / taken_s:,.0f} flights a second; it is fed "
            f"{rate:,} a second{'' if self._rate is None else ', as --rate says'}."
        )
        return PROBE, rate

    # -- steps --------------------------------------------------------------------------------------------------------

    def _feed(self, flights: list[bytes]) -> tuple[int, int]:
        """Feeds flights at a steady rate until the worker that computes `watched` was killed often enough: first while
        its unit has a hot standby, then while it has none. How many were fed, and how many a second."""
        fed, rate = self._probed(flights)
        feeder = Feeder(self._log().appender("demo"), "flights", rate, lambda i: flights[fed + i], self.partitions)
        with feeder:
            for way in (TAKEOVER, RESTART):
                if way == RESTART:
                    unit = self._unit().unit
                    self._call("scheme", self.job, unit, self.unprotected, *self._timeout())
                    self._await(self._alone, "the unit has no standby")
                for number in range(1, self.kills + 1):
                    self._kill(way, number)
                    if fed + len(feeder.sent_ms) >= len(flights):
                        raise MeasureFailed("the year of flights was over before the last kill: give a lower --rate")
        return fed + len(feeder.sent_ms), rate

    def _kill(self, way: str, number: int) -> None:
        """Kills the leader's worker, and waits until the unit is as it was and gives results."""
        leader = self._unit().copies[0]
        killed_ms = int(time.time() * 1000)
        self._call("kill", leader.worker)
        self._await(lambda: self._gone(leader), f"another copy than that of {leader.worker} leads")
        ready = self._ready if way == TAKEOVER else self._alone
        self._await(ready, "the unit is as it was before")
        known = self._counted()
        self._await(lambda: self._counted() > known, "further results")
        self._struck_by.append(Kill(way, killed_ms, int(time.time() * 1000)))
        times = [time_ms for time_ms, _ in self._rows(self.watched)]
        (silent_ms,) = silences(self._struck_by[-1:], times)[way]
        self._say(f"  {way} {number} of {self.kills}: results were silent for {silent_ms:,} ms")

    def _units(self) -> list[UnitLine]:
        """Units of the job, as heartbeats and assignments have them now."""
        log, topics = self._log(), ClusterTopics()
        where = Whereabouts(self._folder / "cluster", "", topics.prefix, True)
        door = Door(log, topics, dict(log.topics()), where)
        view = read_all(door)
        plan = view.plan(named_job(view, self.job).generation)
        if plan is None:
            raise MeasureFailed(f"job {self.job} was not admitted")
        return list(view.units(plan))

    def _unit(self) -> UnitLine:
        """The unit whose worker is killed."""
        return next(filter(self._is_struck, self._units()))

    def _ready(self) -> bool:
        """True if the struck unit, and the units before it, whose loss would also silence
        its results, are protected.
        """
        return all(map(self._protected, filter(self._counts, self._units())))

    def _alone(self) -> bool:
        units = list(filter(self._counts, self._units()))
        (unit,) = filter(self._is_struck, units)
        others = (one for one in units if one is not unit)
        return self._stripped(unit) and all(map(self._protected, others))

    def _counts(self, unit: UnitLine) -> bool:
        return True

    def _protected(self, unit: UnitLine) -> bool:
        states = [copy.state for copy in unit.copies]
        return len(states) == 2 and states[0] == "running" and states[1] in self.standby

    def _stripped(self, unit: UnitLine) -> bool:
        return unit.scheme == self.unprotected and [copy.state for copy in unit.copies] == ["running"]

    def _gone(self, leader: CopyLine) -> bool:
        now = self._unit().copies
        return bool(now) and (now[0].worker, now[0].incarnation) != (leader.worker, leader.incarnation)

    def _counted(self) -> int:
        """Number of flights with results."""
        newest = {row["origin"]: row["n"] for row in map(json.loads, self._values(self.watched))}
        return sum(newest.values())

    @property
    def _patience_s(self) -> float:
        return patience_s(self._up_s)

    def _timeout(self, usual_s: float = AGAIN_S) -> list[str]:
        """Time-out option of a command that waits: longer on a slow machine."""
        return ["--timeout", f"{self._patience_s:.0f}"] if self._patience_s > usual_s else []

    def _await(self, reached: Callable[[], bool], what: str, least_s: float = AGAIN_S) -> None:
        """Waits until `reached` holds. Raises MeasureFailed after the time-out."""
        wait = Wait(max(least_s, self._patience_s), time.monotonic())
        while not reached():
            if wait.over(time.monotonic()):
                raise MeasureFailed(f"this did not happen within {wait.seconds:.0f} s: {what}")
            time.sleep(LOOK_S)

    def _values(self, topic: str) -> list[bytes]:
        return [value for _, value in self._rows(topic)]

    def _rows(self, topic: str) -> list[Row]:
        log = self._log()
        count = log.topics().get(topic, 0)
        found = (message for index in range(count) for message in log.scan(Partition(topic, index)))
        return [(message.timestamp()[1], message.value() or b"") for message in found]

    def _results(self) -> dict[str, list[Row]]:
        return {topic: self._rows(topic) for topic in self.sinks}

    def _create(self, topic: str, partitions: int) -> None:
        """An empty topic, so that the job can start before the data come."""
        self._log().create([TopicSpec(topic, partitions)])

    @contextmanager
    def _appender(self) -> Iterator[Appender]:
        appender = self._log().appender("probe")
        try:
            yield appender
        finally:
            appender.close()

    def _log(self) -> Log:
        if self._opened is None:
            described = json.loads((self._folder / "cluster" / "cluster.json").read_text())
            patience = Patience(round(self._patience_s), self._say)
            self._opened = open_waiting(described["bootstrap_servers"], ClusterTopics().prefix, "demo", patience)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # -- outcome ------------------------------------------------------------------------------------------------------

    def _judge(self, messages: dict[str, list[Row]], expected: dict[str, demo_check.Expected]) -> Verdict:
        total = Verdict()
        for query, want in expected.items():
            verdict = demo_check.compare((value for _, value in messages[query]), want)
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
        self._say(f"[bold]$ holdfast {' '.join(words)}[/bold]")
        patient = {PATIENCE: os.environ.get(PATIENCE, f"{self._patience_s:.0f}")}
        if subprocess.run(self._command(*words), check=False, env={**os.environ, **patient}).returncode != 0:
            raise MeasureFailed(f"holdfast {words[0]} failed, see above")

    def _say(self, text: str) -> None:
        _console.print(f"[dim]{time.monotonic() - self._began_s:4.0f} s[/dim]  {text}")


class SparkDemo(Demo):
    """The demo with one operator on Spark: a model for each airport and week, fitted by a Python function. A driver
    takes a while to start again, so it is killed once each way.
    """

    job, struck, watched, unprotected = "punctuality", "models", "models", "passive"
    sinks = ("models",)
    partitions, kills, rate = 1, 1, 6_000
    standby = ("synced",)

    def _frames(self) -> dict[str, pl.DataFrame]:
        os.environ["HOLDFAST_PLUGINS"] = f"compose.jobs.{self.job}"
        return {"flights": demo_data.flights()}

    def _expected(self, frames: dict[str, pl.DataFrame]) -> dict[str, demo_check.Expected]:
        return demo_check.models(frames["flights"])

    def _await_job(self) -> None:
        """Waits until one driver runs the query and the other is ready to take over."""
        self._await(self._ready, "one driver runs the query, and another could take over", READY_S)

    def _is_struck(self, unit: UnitLine) -> bool:
        return unit.unit == f"spark-{self.struck}-0"

    def _counts(self, unit: UnitLine) -> bool:
        """A driver's end costs no other unit a copy."""
        return self._is_struck(unit)

    def _probed(self, flights: list[bytes]) -> tuple[int, int]:
        """The rate without a probe: Spark starts slowly, and its rate in the first second means nothing."""
        return 0, self._rate or self.rate

    def _counted(self) -> int:
        return len(self._values(self.watched))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="demo", description="Runs a job on a year of flights, kills a worker, checks every row."
    )
    parser.add_argument("--workers", type=int, default=3)
    rates = f"default: {SHARE:.0%} of what the machine takes in its first second; with --spark {SparkDemo.rate:,}"
    parser.add_argument("--rate", type=int, help=f"flights fed a second ({rates})".replace("%", "%%"))
    parser.add_argument("--spark", action="store_true", help="the job whose operator runs on Spark, its driver killed")
    parser.add_argument("--watch", action="store_true", help="with the console, which stays open until Ctrl-C")
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    options = parser.parse_args()
    lazy_modules.resolve(load=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster is stopped in good order
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    keep = options.keep
    try:
        demo = (SparkDemo if options.spark else Demo)(folder, options.workers, options.rate, watch=options.watch)
        summary = demo.run()
        keep = keep or _inexact(summary)
        print(json.dumps(summary), flush=True)
        if _inexact(summary):
            raise MeasureFailed("results are not exact, see above")
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        keep = True
        _console.print("\n".join([f"error: {_said(error)}", *advice(folder, sys.argv[1:])]), markup=False)
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        elif sys.exc_info()[0] is None and options.keep:
            _console.print(f"data and logs are kept in {folder}")
    return 0


def _inexact(summary: dict[str, Any]) -> bool:
    return bool(summary["lost"] or summary["duplicated"] or summary["wrong"])


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, MeasureFailed | HoldfastError) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
