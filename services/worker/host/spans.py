"""Spans for OpenTelemetry: the work of copies on each batch. HOLDFAST_TRACES turns them on; the usual OTEL_ variables
set their target and number.

The spans of a batch form one trace without any message between processes: the trace id is a hash of job, generation and
batch, and the span id of a unit's leader a hash of these and the unit. So a copy can compute the spans of the units
that it reads. Source: docs/decisions/0075.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags

from holdfast.services.kernel.dataflow.walk import Walked

LAST_S = 1.0
"""Longest wait of an ending process for its last spans."""


class Spans:
    """The spans of one process, for its loop. `processor` receives spans that have ended."""

    def __init__(self, worker: str, processor: SpanProcessor, now_ns: Callable[[], int] = time.time_ns) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME") or "holdfast-worker"
        resource = Resource.create({SERVICE_NAME: name, SERVICE_INSTANCE_ID: worker})
        self._ids = _Ids()
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("holdfast")
        self.now_ns = now_ns

    def of(self, job: str, generation: str, unit: str, above: Sequence[str]) -> UnitSpans:
        """The spans of a copy. `above` holds the units whose frames it reads."""
        return UnitSpans(self, job, generation, unit, above=tuple(above))

    def close(self) -> None:
        """Sends waiting spans for at most LAST_S seconds."""
        last = threading.Thread(target=self._provider.shutdown, name="spans", daemon=True)
        last.start()
        last.join(LAST_S)

    def add(self, trace_id: int, span_id: int, parents: Sequence[int], began_ns: int, unit: UnitSpan) -> None:
        """Adds a span that ends now. A `span_id` of 0 means any id. The first of `parents` is the parent, the others
        become links."""
        sampled = self._provider.sampler.should_sample(None, trace_id, unit.name).decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        above = [SpanContext(trace_id, parent, is_remote=True, trace_flags=flags) for parent in parents]
        context = trace.set_span_in_context(NonRecordingSpan(above[0]), Context()) if above else Context()
        self._ids.trace_id, self._ids.span_id = trace_id, span_id
        span = self._tracer.start_span(
            unit.name, context, attributes=unit.attributes, links=[Link(one) for one in above[1:]], start_time=began_ns
        )
        span.end(self.now_ns())


class UnitSpan:
    """The name and attributes of a span; the names of attributes get the prefix `holdfast.`"""

    __slots__ = ("attributes", "name")

    def __init__(self, name: str, attributes: dict[str, str | int | bool]) -> None:
        self.name = name
        self.attributes = {f"holdfast.{key}": value for key, value in attributes.items()}


class UnitSpans:
    """Spans of one copy's batches."""

    def __init__(self, spans: Spans, job: str, generation: str, unit: str, above: tuple[str, ...]) -> None:
        self._spans = spans
        self._job = job
        self._generation = generation
        self._unit = unit
        self._above = above

    def now_ns(self) -> int:
        return self._spans.now_ns()

    def did(self, batch: int, began_ns: int, walked: Walked, epoch: int, leads: bool) -> None:
        """Adds a span for a batch that a copy has done. `leads` is True if the copy delivers its results."""
        own = self._span_id(self._unit, batch)
        parents = [self._span_id(unit, batch) for unit in self._above] if leads else [own]
        rows = [one.rows.height for one in walked.produced.sent] + [one.rows.height for one in walked.produced.sinks]
        said: dict[str, str | int | bool] = {
            "job": self._job,
            "generation": self._generation,
            "unit": self._unit,
            "batch": batch,
            "epoch": epoch,
            "leads": leads,
            "records": sum(records for records, _ in walked.edges.values()),
            "rows": sum(rows),
            "dead_letters": len(walked.dead),
        }
        self._spans.add(
            _hash(16, self._job, self._generation, batch),
            own if leads else 0,
            parents,
            began_ns,
            UnitSpan(self._unit, said),
        )

    def _span_id(self, unit: str, batch: int) -> int:
        return _hash(8, self._job, self._generation, batch, unit)


class _Ids(IdGenerator):
    """Generates the ids that are set for the next span."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id or secrets.randbits(64) or 1


def open_spans(worker: str) -> Spans:
    """Sends spans by OTLP in a thread of its own; spans that cannot be sent are dropped."""
    return Spans(worker, BatchSpanProcessor(OTLPSpanExporter()))


def _hash(size: int, *of: object) -> int:
    return int.from_bytes(hashlib.blake2b(" ".join(map(str, of)).encode(), digest_size=size).digest(), "big") or 1
