"""Answers Prometheus over HTTP. Its library takes a while to load: a process that serves no metrics leaves it out."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from services.log.metrics import Metric, Read

_log = structlog.get_logger()
_Family = CounterMetricFamily | GaugeMetricFamily


def registry_of(*sources: Read) -> CollectorRegistry:
    """Asks these whenever somebody looks."""
    registry = CollectorRegistry()
    for source in sources:
        registry.register(_Asked(source))
    return registry


def serve(registry: CollectorRegistry, port: int, address: str) -> None:
    """Answers at http://<address>:<port>/metrics; if the port is taken, says so, and nobody answers."""
    try:
        start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        _log.warning("no metrics are served", port=port, error=str(error), fix="set HOLDFAST_METRICS_PORT")
    else:
        _log.info("metrics", at=f"http://{address}:{port}/metrics")


class _Asked(Collector):
    def __init__(self, read: Read) -> None:
        self._read = read

    def collect(self) -> Iterable[_Family]:
        families: dict[Metric, _Family] = {}
        for metric, labels, value in self._read():
            families.setdefault(metric, _family(metric)).add_metric(labels, value)
        return families.values()


def _family(metric: Metric) -> _Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.about, labels=metric.labels)
