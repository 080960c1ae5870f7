"""P12: how well output fidelity, and the rival metric, predict the accuracy of results while units are gone.

Both jobs run in memory, by the units of the services. A unit that is gone takes in nothing; its punctuation continues,
as recovery forges it. Source: MECHANISMS P4, P12.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import msgspec
import polars as pl
import structlog
import yaml

from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series
from bench.research.papers.rules import at_least, at_most
from bench.rig.followed import MeasureFailed
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan
from holdfast.services.client.local_run import LocalRun, complete
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.unit import Produced, Unit
from holdfast.services.kernel.fidelity.loss import fidelity
from holdfast.services.kernel.fidelity.of_job import planned
from holdfast.services.kernel.fidelity.planners.plan import presence
from holdfast.services.kernel.fidelity.planners.structured import structure_aware
from holdfast.services.kernel.fidelity.topology import Topology

SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
BY_OF, BY_IC = "OF", "IC"
TRAFFIC_ROWS, REQUEST_ROWS = 20_000, 20_000
_ACCESS = re.compile(rb'^(\S+) \[(\d\d):(\d\d:\d\d:\d\d)\] "(?:GET|HEAD|POST) (\S+)[^"]*" (\d{3}) (\d+|-)$')

Records = Mapping[str, list[bytes]]


@dataclass(frozen=True, slots=True)
class _Job:
    """A job.

    text: the job file.
    identity: fields that identify a result row.
    """

    text: str
    query: str
    identity: tuple[str, ...]


TOP = _Job(
    """
name: busiest
sources:
  requests: {topic: requests, parallelism: 4, fields: {path: string, at: timestamp}, event_time: at,
             allowed_lateness_s: 60}
operators:
  paths: {aggregate: {n: "count()"}, key: [path], input: requests, window: {size_s: 3600}, parallelism: 4}
  busiest: {top: {k: 100, by: n}, input: paths}
queries:
  busiest: {input: busiest}
fault_tolerance: {default: {scheme: passive}, replication_budget: 0.5}
""",
    "busiest",
    ("window_start", "path"),
)
JOIN = _Job(
    """
name: beside-incidents
sources:
  traffic: {topic: traffic, parallelism: 4, fields: {at: timestamp, sensor: int, speed: int}, event_time: at}
  incidents: {topic: incidents, parallelism: 4, fields: {at: timestamp, sensor: int, slowed_to: int}, event_time: at}
operators:
  beside: {join: {left: traffic, right: incidents, "on": [sensor], within_s: 1800, kind: inner}, parallelism: 4}
queries:
  beside: {input: beside}
fault_tolerance: {default: {scheme: passive}, replication_budget: 0.5}
""",
    "beside",
    ("sensor", "at", "at_right"),
)
JOBS = {"top-k": TOP, "join": JOIN}
KEYS = tuple(f"{job} by {metric} {share:g}" for job in JOBS for metric in (BY_OF, BY_IC) for share in SHARES)


# -- the recordings ---------------------------------------------------------------------------------------------------


def _path(name: str) -> Path:
    folder = Path(os.environ.get("HOLDFAST_SHARED_DATA") or Path(__file__).parents[3].parent / "shared" / "data")
    if not (folder / name).is_file():
        raise MeasureFailed(f"{folder / name} is not there: HOLDFAST_SHARED_DATA names the folder of recordings")
    return folder / name


@cache
def _requests() -> Records:
    lines = gzip.decompress(_path("web_access.log.gz").read_bytes()).splitlines()
    found = [match.groups() for line in lines if (match := _ACCESS.match(line))][:REQUEST_ROWS]
    rows = ({"path": one[3].decode("latin-1"), "at": f"1995-08-{one[1].decode()}T{one[2].decode()}Z"} for one in found)
    return {"requests": [msgspec.json.encode(row) for row in rows]}


@cache
def _traffic() -> Records:
    """Counts of road sensors, and an incident where the speed at one falls below half of its free flow."""
    read = pl.read_parquet(_path("road_traffic.parquet"), n_rows=TRAFFIC_ROWS)
    free = pl.read_csv(_path("road_sensors.csv")).select(pl.col("sensor").cast(pl.Int32), "free_flow_kmh")
    rows = read.select(
        pl.col("event_time").dt.strftime("%Y-%m-%dT%H:%M:%SZ").alias("at"),
        "sensor",
        "vehicles",
        pl.col("avg_speed_kmh").alias("speed"),
    ).join(free, on="sensor", maintain_order="left")
    slow = (pl.col("vehicles") > 0) & (pl.col("speed") * 2 < pl.col("free_flow_kmh"))
    began = slow & ~slow.shift(fill_value=False).over("sensor")
    incidents = rows.filter(began).select("at", "sensor", pl.col("speed").alias("slowed_to"))
    counts = rows.select("at", "sensor", "speed")
    return {
        name: [msgspec.json.encode(row) for row in some.iter_rows(named=True)]
        for name, some in (("traffic", counts), ("incidents", incidents))
    }


# -- a run without some units -----------------------------------------------------------------------------------------


@contextmanager
def without(units: Collection[str]) -> Iterator[None]:
    """In its context these units get empty inputs, so that they send only punctuation."""
    true = Unit.process

    def process(self: Unit, batch: int, sources: Any, frames: Any, *others: Any) -> Produced:
        if self.layout.unit.name in units:
            sources, frames = ({key: _emptied(fed) for key, fed in some.items()} for some in (sources, frames))
        return true(self, batch, sources, frames, *others)

    with mock.patch.object(Unit, "process", process):
        yield


def _emptied(fed: Fed) -> Fed:
    return replace(fed, rows=fed.rows.clear())


def results(job: _Job, records: Records, gone: Collection[str]) -> tuple[Plan, set[tuple[Any, ...]]]:
    """The plan, and the results."""
    spec = complete(JobSpec.model_validate(yaml.safe_load(job.text)))
    with without(gone):
        done = LocalRun(spec, {name: [some] for name, some in records.items()}, []).run()
    rows = map(msgspec.json.decode, done.rows[job.query])
    return done.plan, {tuple(row[name] for name in job.identity) for row in rows}


def _independent(topology: Topology) -> Topology:
    """Topology as IC takes it: every input is independent of the others."""
    return replace(topology, nodes=tuple(replace(node, correlated=False) for node in topology.nodes))


def _measure(keys: Sequence[str], keep: Keep) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for name, job in JOBS.items():
        if not (wanted := [key for key in keys if key.startswith(f"{name} ")]):
            continue
        records = _requests() if job is TOP else _traffic()
        plan, whole = results(job, records, ())
        of = planned(plan)
        for key in wanted:
            _, _, metric, share = key.split()
            topology = of.topology if metric == BY_OF else _independent(of.topology)
            units = structure_aware(topology, of.budget(float(share))).units
            there = presence(of.topology, units)
            gone = [unit for unit, alive in zip(of.topology.units, there, strict=True) if not alive]
            _, found = results(job, records, gone)
            keep(
                key,
                {
                    "accuracy": len(found & whole) / len(whole),
                    "of": float(fidelity(of.topology, there)),
                    "ic": float(fidelity(of.topology, there, correlated=False)),
                },
            )


# -- the figure -------------------------------------------------------------------------------------------------------


def _points(data: Data, job: str, metric: str, value: str) -> tuple[tuple[float, float], ...]:
    return tuple((share, data[f"{job} by {metric} {share:g}"][value]) for share in SHARES)


def _plots(data: Data) -> list[Plot]:
    return [
        Plot(
            f"{job}, plans by {metric}",
            "share of units that are there",
            "accuracy, fidelity",
            tuple(
                Series(shown, _points(data, job, metric, value), dashed=value != "accuracy")
                for shown, value in (("accuracy", "accuracy"), ("OF", "of"), ("IC", "ic"))
            ),
        )
        for job in JOBS
        for metric in (BY_OF, BY_IC)
    ]


def _error(data: Data, job: str, value: str) -> float:
    """The mean distance of a metric from the accuracy, over all plans of a job."""
    points = [data[key] for key in KEYS if key.startswith(f"{job} ")]
    return fmean(abs(one[value] - one["accuracy"]) for one in points)


def _checks(data: Data) -> list[Check]:
    def mean(metric: str) -> float:
        return fmean(y for _, y in _points(data, "join", metric, "accuracy"))

    return [
        at_most("join: mean distance of OF from the accuracy", _error(data, "join", "of"), 0.15, shape=True),
        at_most("top-k: mean distance of OF from the accuracy", _error(data, "top-k", "of"), 0.15),
        at_least(
            "join: distance of IC over that of OF",
            _error(data, "join", "ic") / max(_error(data, "join", "of"), 1e-3),
            1.5,
            shape=True,
        ),
        at_least(
            "join: accuracy of plans by OF over plans by IC", mean(BY_OF) / max(mean(BY_IC), 1e-3), 1.0, shape=True
        ),
        at_least("accuracy with all units there", min(data[f"{job} by OF 1"]["accuracy"] for job in JOBS), 1.0),
    ]


P12 = Figure(
    tag="P12",
    title="accuracy of results while units are gone, and what predicts it",
    paper="Su and Zhou 2016, figure 12",
    expected="OF predicts the accuracy of both queries; IC fails for the join, and so do plans that are made by it.",
    setup="Two jobs in memory: the 100 paths of a web server that were asked for most in each hour, and counts of road "
    f"sensors joined with incidents at the same sensor within 30 minutes; the first {REQUEST_ROWS:,} records each. "
    "Sources, counts and joins have four tasks each. Plans of the structure-aware planner by OF, and by IC, for "
    "several budgets; all other units take in nothing. Accuracy: the share of the true results that is there.",
    ground=Ground.PROCESS,
    keys=KEYS,
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=120,
    differs="The recordings are other ones. They are inputs of a machine: HOLDFAST_SHARED_DATA names their folder. "
    "The rates of the prediction are even ones.",
)
