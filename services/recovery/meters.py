"""Metrics of a recovery replica: phases of takeovers, and the state of the cluster.

Source: PROTOCOL 13. Each replica sees all of the cluster, so one of them is enough to watch it.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Counter, Histogram

from holdfast.schemas.assignments import job_key, job_key_of, split_job_key
from holdfast.schemas.events import Event
from holdfast.services.process.health import Health
from holdfast.services.process.metrics import REFUSED, Metric, Read, Sample, of_process, of_refusals
from holdfast.services.process.metrics_server import registry_of, serve
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.decision_events import INSTABILITY_PHASE

BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
UNSTABLE_S = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)

PHASE = Metric(
    "holdfast_takeover_phase_seconds",
    "histogram",
    ("phase",),
    "Detection since the last sign of life; activation, replay and first batch out of the copy that took over",
)
INSTABILITY = Metric(
    "holdfast_instability_seconds",
    "histogram",
    (),
    "From the last sign of life of a worker that failed until every unit that had a copy there is protected again",
)
EVENTS = Metric("holdfast_events_total", "counter", ("kind",), "What happened, by the kind of event")
UNITS = Metric("holdfast_units", "gauge", ("scheme",), "Units placed, by their scheme")
JOB = ("job", "generation")
UNPROTECTED = Metric("holdfast_units_unprotected", "gauge", JOB, "Units not protected as they should be")
UNSERVED = Metric(
    "holdfast_units_unserved", "gauge", JOB, "Units without a standby, for which every worker holds as many as it may"
)
UNPLACED = Metric("holdfast_units_unplaced", "gauge", JOB, "Units that are to run, and that no worker can take")
WORKERS = Metric("holdfast_workers", "gauge", (), "Workers that answer")
FALSE_SWITCHES = Metric("holdfast_false_switches_total", "counter", (), "Switches for a worker that was only late")
PROMISES = Metric(
    "holdfast_promises_total", "counter", ("job", "kept"), "Takeovers of adaptive units, by their promise"
)
RECOVERY = Metric(
    "holdfast_recovery_seconds", "histogram", ("of",), "Takeovers as predicted and as they were, from the failure on"
)
OF_RECOVERY = (
    PROMISES, RECOVERY, PHASE, INSTABILITY, EVENTS, UNITS, UNPROTECTED, UNSERVED, UNPLACED, WORKERS, FALSE_SWITCHES,
    REFUSED,
)  # fmt: skip


class Meters:
    """Metrics of one replica.

    Args:
        known: state from which the gauges are computed at each scrape.
        since_ms: time of day from which events count; earlier takeovers are history.
        refused: functions that return refused records by topic, one for each reader.
        name: of the replica.
    """

    def __init__(
        self, known: ReplicaView, since_ms: int, *refused: Callable[[], Mapping[str, int]], name: str = ""
    ) -> None:
        self._since_ms = since_ms
        self.registry = registry = registry_of(of_process(name, "recovery"), _standing(known), of_refusals(*refused))
        self._phases = Histogram(PHASE.name, PHASE.about, PHASE.labels, registry=registry, buckets=BUCKETS_S)
        self._unstable = Histogram(INSTABILITY.name, INSTABILITY.about, registry=registry, buckets=UNSTABLE_S)
        self._promises = Counter(PROMISES.name, PROMISES.about, PROMISES.labels, registry=registry)
        self._recovery = Histogram(RECOVERY.name, RECOVERY.about, RECOVERY.labels, registry=registry, buckets=BUCKETS_S)
        self._events = Counter(EVENTS.name, EVENTS.about, EVENTS.labels, registry=registry)

    def count(self, event: Event) -> None:
        if event.time_ms < self._since_ms:
            return
        self._events.labels(event.kind).inc()
        if event.predicted_ms:
            self._judged(event)
            return
        for phase, took_ms in event.phases_ms.items():
            if phase == INSTABILITY_PHASE:
                self._unstable.observe(took_ms / 1000)
                continue
            self._phases.labels(phase).observe(took_ms / 1000)

    def _judged(self, event: Event) -> None:
        """Counts a judged takeover beside its prediction; its phases have been counted when they were reported."""
        for of, times in (("predicted", event.predicted_ms), ("actual", event.phases_ms)):
            if "total" in times:
                self._recovery.labels(of).observe(times["total"] / 1000)
        if event.promise_ms:
            self._promises.labels(event.job, "false" if event.kind == "promise-broken" else "true").inc()

    def serve(self, port: int, address: str = "127.0.0.1", health: Health | None = None) -> None:
        """Serves the metrics at this address; if the port is taken, logs a warning and serves nothing.

        health: of the replica.
        """
        serve(self.registry, port, address, health)


def _standing(known: ReplicaView) -> Read:
    """Returns a function that computes the gauges when they are read."""

    def read() -> Iterator[Sample]:
        placed = Count(change.scheme for change in known.assigned.units().values() if change.copies)
        for scheme in sorted(placed):
            yield UNITS.of(placed[scheme], scheme)
        unprotected, unserved, unplaced = (
            Count(map(job_key_of, units)) for units in (known.unprotected(), known.sharing.unserved, known.unplaced())
        )
        waiting = {job_key(one.job, one.generation) for one in known.admitted.running().values() if one.stands_by}
        for job in known.jobs():
            yield UNPROTECTED.of(0 if job in waiting else unprotected[job], *split_job_key(job))
            yield UNSERVED.of(unserved[job], *split_job_key(job))
            yield UNPLACED.of(unplaced[job], *split_job_key(job))
        yield WORKERS.of(sum(1 for _ in known.detector.alive()))
        yield FALSE_SWITCHES.of(sum(known.detector.false_switches.values()))

    return read
