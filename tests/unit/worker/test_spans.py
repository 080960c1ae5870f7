"""Traces of batches: one trace for a batch, a span for each copy that did it, below those of the units that feed it."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from threading import Thread
from unittest import mock

import pytest

from holdfast.schemas.assignments import PRIMARY
from holdfast.services.kernel.plans.layout import directly_above
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.process import main
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.process.settings import WorkerSettings
from tests.support.memory_cluster import GENERATION, MemoryCluster
from tests.support.orders import JOB, check, orders

pytest.importorskip("opentelemetry.sdk", reason="traces are optional: pip install 'holdfast-streams[traces]'")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.services.worker.host.spans import Spans, open_spans

FED = orders(200)


class Traced:
    """A cluster whose workers keep their spans here."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(JOB)
        self._kept = InMemorySpanExporter()

    def start(self, name: str) -> Worker:
        spans = Spans(name, SimpleSpanProcessor(self._kept), now_ns=lambda: self.cluster.now_ms * 1_000_000)
        return self.cluster.start(name, spans=spans)

    def run(self) -> None:
        for partition in (0, 1):
            self.cluster.feed("orders", FED[partition::2], partition)
        self.cluster.turn(1_500)
        self.cluster.run_to_end()
        check(self.cluster.rows, FED)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        found: Sequence[ReadableSpan] = self._kept.get_finished_spans()
        return found


def said(span: ReadableSpan, what: str) -> object:
    assert span.attributes is not None
    return span.attributes[f"holdfast.{what}"]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_batch_is_one_trace_with_a_span_of_each_unit_below_those_that_feed_it(traced: Traced) -> None:
    cluster, workers = traced.cluster, [traced.start(name) for name in ("w1", "w2")]
    cluster.place({unit: [workers[index % 2]] for index, unit in enumerate(cluster.units)})
    traced.run()
    view = JobView.of(cluster.plan, cluster.cluster, workers[0]._decisions.assigned)
    above = directly_above(view.layouts)
    assert any(above.values()), "some units are fed by others"
    batches: dict[int, dict[str, ReadableSpan]] = defaultdict(dict)
    for span in traced.spans:
        assert (said(span, "job"), said(span, "generation")) == (cluster.plan.job, GENERATION)
        assert (said(span, "unit"), said(span, "leads")) == (span.name, True)
        batches[int(str(said(span, "batch")))][span.name] = span
    assert all(spans.keys() == set(cluster.units) for spans in batches.values())
    assert len({span.context.trace_id for spans in batches.values() for span in spans.values()}) == len(batches)
    for spans in batches.values():
        assert len({span.context.trace_id for span in spans.values()}) == 1
        for unit, span in spans.items():
            named = [] if span.parent is None else [span.parent, *(link.context for link in span.links)]
            assert [one.span_id for one in named] == [spans[other].context.span_id for other in above[unit]]
            assert span.start_time is not None
            assert span.end_time is not None
            assert span.start_time <= span.end_time


def test_a_span_says_how_much_came_in_and_went_out(traced: Traced) -> None:
    worker = traced.start("w1")
    traced.cluster.place({unit: [worker] for unit in traced.cluster.units})
    traced.run()
    sources = [span for span in traced.spans if span.parent is None]
    assert sum(int(str(said(span, "records"))) for span in sources) == len(FED)
    rows = sum(
        len(traced.cluster.rows(str(o.params["query"]))) for o in traced.cluster.plan.operators if o.kind == "sink"
    )
    assert sum(int(str(said(span, "rows"))) for span in traced.spans) >= rows > 0


def test_the_span_of_a_standby_lies_below_that_of_its_leader(traced: Traced) -> None:
    cluster, (one, two) = traced.cluster, [traced.start(name) for name in ("w1", "w2")]
    cluster.place({unit: [(one, PRIMARY), (two, Rung.STANDBY.flags)] for unit in cluster.units})
    traced.run()
    leaders = {span.context.span_id: span for span in traced.spans if said(span, "leads")}
    standbys = [span for span in traced.spans if not said(span, "leads")]
    assert len({span.context.span_id for span in traced.spans}) == len(traced.spans)
    assert standbys
    for span in standbys:
        assert span.parent is not None
        leader = leaders.get(span.parent.span_id)
        if leader is not None:  # a batch that is done again after the flags came has no other one
            assert (leader.name, said(leader, "batch")) == (span.name, said(span, "batch"))


def test_samples_by_trace_have_whole_batches(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    workers = [traced.start(name) for name in ("w1", "w2")]
    traced.cluster.place({unit: [workers[index % 2]] for index, unit in enumerate(traced.cluster.units)})
    traced.run()
    found: dict[int, set[str]] = defaultdict(set)
    for span in traced.spans:
        found[int(str(said(span, "batch")))].add(span.name)
    assert 0 < len(found) < max(found)
    assert all(units == set(traced.cluster.units) for units in found.values())


@pytest.mark.slow
def test_nobody_asked_nothing_is_loaded() -> None:
    """Neither the library nor a clock is touched."""
    with mock.patch.dict("os.environ"):
        assert WorkerSettings().traces is False
    assert main._spans(WorkerSettings()) is None
    script = "import holdfast.services.worker.process.main, sys; "
    script += "sys.exit(any('opentelemetry' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_the_library_a_worker_warns_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.services.worker.host.spans", None)
    with mock.patch.object(main, "_log") as log:
        assert main._spans(WorkerSettings(traces=True)) is None
    assert "holdfast-streams[traces]" in log.warning.call_args.kwargs["fix"]


@contextmanager
def collector() -> Iterator[tuple[str, Queue[tuple[str, Mapping[str, str]]]]]:
    """A place to send spans to, and what was posted there: path and headers."""
    came: Queue[tuple[str, Mapping[str, str]]] = Queue()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            came.put((self.path, dict(self.headers)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", came
    server.shutdown()
    server.server_close()


def test_spans_go_where_the_usual_variables_say(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (where, came):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", where)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "tenant=t1")
        spans = open_spans("w1")
        worker = traced.cluster.start("w1", spans=spans)
        traced.cluster.place({unit: [worker] for unit in traced.cluster.units})
        traced.run()
        spans.close()
        path, headers = came.get(timeout=300)
        assert path == "/v1/traces"
        assert headers["tenant"] == "t1"
