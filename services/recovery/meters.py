"""What Prometheus may ask of a recovery replica: phases of takeovers, and how the cluster stands.

Source: PROTOCOL 13. Each replica sees all of the cluster, so one of them is enough to watch it.
"""

from __future__ import annotations

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from schemas.events import Event
from services.recovery.core.recovery import Recovery

BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)

_log = structlog.get_logger()


class Meters:
    """Of one replica.

    Args:
        core: asked for its gauges whenever somebody looks.
        since_ms: what happened before is history, and counted by nobody again.
    """

    def __init__(self, core: Recovery, since_ms: int) -> None:
        self._since_ms = since_ms
        self._registry = registry = CollectorRegistry()
        self._phases = Histogram(
            "holdfast_takeover_phase_seconds",
            "Detection since the last sign of life; activation, replay and first output of the copy that took over",
            ["phase"],
            registry=registry,
            buckets=BUCKETS_S,
        )
        self._events = Counter("holdfast_events", "What happened, by the kind of event", ["kind"], registry=registry)
        self.skipped = Counter(
            "holdfast_skipped_records", "Records of cluster topics that could not be read", ["topic"], registry=registry
        )
        registry.register(_Standing(core))

    def count(self, event: Event) -> None:
        if event.time_ms < self._since_ms:
            return
        self._events.labels(event.kind).inc()
        for phase, took_ms in event.phases_ms.items():
            self._phases.labels(phase).observe(took_ms / 1000)

    def serve(self, port: int) -> None:
        """Answers on loopback; a port that is taken is reported, and nobody answers."""
        try:
            start_http_server(port, addr="127.0.0.1", registry=self._registry)
        except OSError as error:
            _log.warning("no metrics are served", port=port, error=str(error), fix="set HOLDFAST_METRICS_PORT")
        else:
            _log.info("metrics", at=f"http://127.0.0.1:{port}/metrics")


class _Standing(Collector):
    """Gauges, read from the core when they are asked for."""

    def __init__(self, core: Recovery) -> None:
        self._core = core

    def collect(self) -> list[GaugeMetricFamily]:
        placed = [change for change in self._core.assigned.units().values() if change.copies]
        protected = GaugeMetricFamily("holdfast_units", "Units placed, by their scheme", labels=["scheme"])
        for scheme in sorted({change.scheme for change in placed}):
            protected.add_metric([scheme], sum(change.scheme == scheme for change in placed))
        unprotected = len(self._core.unprotected())
        switches = sum(self._core.detector.false_switches.values())
        return [
            protected,
            GaugeMetricFamily("holdfast_units_unprotected", "Units not protected as they should be", unprotected),
            GaugeMetricFamily("holdfast_workers", "Workers that answer", sum(1 for _ in self._core.detector.alive())),
            GaugeMetricFamily("holdfast_false_switches", "Switches for a worker that was only late", switches),
        ]
