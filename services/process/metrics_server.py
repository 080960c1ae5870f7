"""Serves metrics to Prometheus, and the health of a process, over HTTP.

Its library takes a while to load: a process that serves no metrics does not load it.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.process.health import Health
from holdfast.services.process.metrics import Metric, Read

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = get_logger()
_Family = CounterMetricFamily | GaugeMetricFamily

LIVE, READY = "/healthz", "/readyz"
REQUEST_S = 10.0
"""Seconds without a request after which a connection is closed."""


def registry_of(*sources: Read) -> CollectorRegistry:
    """A registry that reads these sources on each scrape."""
    registry = CollectorRegistry()
    for source in sources:
        registry.register(_Asked(source))
    return registry


def serve(registry: CollectorRegistry, port: int, address: str, health: Health | None = None) -> None:
    """Serves http://<address>:<port>/metrics, /healthz and /readyz; logs a warning and serves nothing if the port is
    taken.

    Args:
        health: health of this process; None: metrics only.
    """
    server = _Server6 if ":" in address else _Server
    try:
        served = make_server(address, port, _application(registry, health), server, _Silent)
    except OSError as error:
        _log.warning("no metrics are served", port=port, error=str(error), fix="set HOLDFAST_METRICS_PORT")
        return
    threading.Thread(target=served.serve_forever, name="metrics", daemon=True).start()
    _log.info("metrics", at=f"http://{address}:{port}/metrics")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Silent(WSGIRequestHandler):
    timeout = REQUEST_S

    def log_message(self, format: str, *args: object) -> None:
        """Drops the message: a scrape is not worth a log line."""


def _application(registry: CollectorRegistry, health: Health | None) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)
    asked = {} if health is None else {LIVE: health.live, READY: health.ready}

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        ask = asked.get(environment["PATH_INFO"])
        if ask is None:
            return metrics(environment, start)
        ok, found = ask()
        start("200 OK" if ok else "503 Service Unavailable", [("Content-Type", "application/json")])
        return [json.dumps(found).encode() + b"\n"]

    return answer


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
