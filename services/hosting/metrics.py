"""Metrics of the copies that a process hosts: the content of their heartbeats at the time of the scrape.

Source: schemas/costs.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from holdfast.schemas.assignments import split_unit_key
from holdfast.schemas.costs import Costs, MicroBatches
from holdfast.schemas.heartbeats import CopyState
from holdfast.services.hosting.heartbeats import CostsOf
from holdfast.services.hosting.lags import AT_RISK, LAG
from holdfast.services.process.metrics import REFUSED, Metric, Read, Sample

UNIT = ("job", "generation", "unit")

COPIES = Metric("holdfast_copies", "gauge", ("state",), "Copies that the process hosts")
BATCH = Metric("holdfast_unit_batch", "gauge", UNIT, "Last batch that the copy has processed or applied")
DURABLE = Metric("holdfast_unit_durable_batch", "gauge", UNIT, "Batch of the newest valid checkpoint marker")
CPU = Metric("holdfast_unit_cpu_seconds_total", "counter", UNIT, "CPU time for batches, checkpoints and applied runs")
RECORDS = Metric("holdfast_unit_records_total", "counter", UNIT, "Records of the batches that this process ran")
PROCESSING = Metric("holdfast_unit_processing_seconds_total", "counter", UNIT, "Time that these batches took")
UNSAVED = Metric("holdfast_unit_unsaved_records", "gauge", UNIT, "Records taken in since the newest valid marker")
STATE_KEYS = Metric("holdfast_unit_state_keys", "gauge", UNIT, "Keys of the state")
STATE_BYTES = Metric("holdfast_unit_state_bytes", "gauge", UNIT, "Bytes of the state, about")
CAPTURES = Metric("holdfast_unit_captures_total", "counter", UNIT, "Checkpoint runs that the copy began")
CAPTURING = Metric("holdfast_unit_capture_seconds_total", "counter", UNIT, "Time that these runs took")
APPLIES = Metric("holdfast_unit_applies_total", "counter", UNIT, "Runs of other copies that the copy applied")
APPLYING = Metric("holdfast_unit_apply_seconds_total", "counter", UNIT, "Time that these took")
WRITTEN = Metric("holdfast_unit_checkpoint_bytes_total", "counter", UNIT, "Bytes appended to the checkpoint log")
RUN = Metric("holdfast_unit_checkpoint_run_bytes", "gauge", UNIT, "Bytes of the last run that the copy wrote")
AGE = Metric("holdfast_unit_checkpoint_age_seconds", "gauge", UNIT, "Since the newest valid marker was read")
SOURCE_RECORDS = Metric(
    "holdfast_job_records_total", "counter", UNIT, "Records of sources that the unit has taken in, as its leader counts"
)
LATE = Metric("holdfast_job_late_rows_total", "counter", UNIT, "Rows that came late, as the unit's leader counts")
DEAD = Metric("holdfast_job_dead_letters_total", "counter", UNIT, "Dead letters, as the unit's leader counts")
LOST = Metric("holdfast_job_lost_records_total", "counter", UNIT, "Records lost: gone before they were read")
TRANSACTIONS = Metric("holdfast_unit_transactions_total", "counter", UNIT, "Transactions committed")
ABORTED = Metric("holdfast_unit_aborted_transactions_total", "counter", UNIT, "Transactions not known to be committed")
TRANSACTING = Metric("holdfast_unit_transaction_seconds_total", "counter", UNIT, "Time that transactions took")
TRANSACTION_CPU = Metric(
    "holdfast_unit_transaction_cpu_seconds_total", "counter", UNIT, "CPU time of the threads that made them"
)
LATENCIES = Metric(
    "holdfast_unit_latencies_total", "counter", UNIT, "Batches of which it was measured when they were out"
)
LATENCY = Metric(
    "holdfast_unit_latency_seconds_total", "counter", UNIT, "From the arrival of a record until these batches were out"
)
RESTORE_CPU = Metric("holdfast_unit_restore_cpu_seconds", "gauge", UNIT, "CPU time of the last restore")
SINK_BYTES = Metric("holdfast_sink_bytes_total", "counter", (*UNIT, "sink"), "Bytes of rows delivered, about")
TENTATIVE = Metric("holdfast_tentative_rows_total", "counter", (*UNIT, "query"), "Tentative rows published")
TENTATIVE_CLOSED = Metric(
    "holdfast_tentative_rows_closed_total",
    "counter",
    (*UNIT, "query", "how"),
    "Keys of tentative rows that were closed by a final row (`replaced`), or by a record without a value (`withdrawn`)",
)
TENTATIVE_OPEN = Metric(
    "holdfast_tentative_rows_open",
    "gauge",
    (*UNIT, "query"),
    "Keys whose newest row is tentative, as the unit's leader counts",
)
SPARK_BATCHES = Metric("holdfast_spark_batches_total", "counter", UNIT, "Micro-batches that the query on Spark wrote")
SPARK_ROWS = Metric("holdfast_spark_rows_total", "counter", UNIT, "Rows that came out of them")
SPARK_LATE = Metric(
    "holdfast_spark_late_rows_total", "counter", UNIT, "Rows that Spark dropped as older than its watermark"
)
SPARK_TRIGGER = Metric(
    "holdfast_spark_trigger_seconds",
    "gauge",
    (*UNIT, "part"),
    "Time of the newest micro-batch that Spark has reported: all of it (`all`), and its parts by Spark's names",
)
RECOVERY = Metric(
    "holdfast_unit_expected_recovery_seconds",
    "gauge",
    UNIT,
    "The copy's part of the unit's expected recovery: at the leader what would be repeated, elsewhere runs to apply",
)
SENT = Metric("holdfast_unit_sent_bytes_total", "counter", UNIT, "Bytes of frames sent to other units")
PHASE = Metric(
    "holdfast_unit_phase_seconds",
    "gauge",
    (*UNIT, "phase"),
    "As measured last: deploy, restore, receive, send, open, replay",
)
EDGE_RECORDS = Metric(
    "holdfast_edge_records_total",
    "counter",
    (*UNIT, "edge", "direction"),
    "Records into (`in`) or out of (`out`) a unit",
)
EDGE_BYTES = Metric("holdfast_edge_bytes_total", "counter", (*UNIT, "edge"), "Bytes into a unit")

OF_COPIES = (
    COPIES, BATCH, DURABLE, CPU, RECORDS, PROCESSING, UNSAVED, STATE_KEYS, STATE_BYTES, CAPTURES, CAPTURING, APPLIES,
    APPLYING, WRITTEN, RUN, AGE, RECOVERY, SENT, PHASE, RESTORE_CPU, TRANSACTIONS, ABORTED, TRANSACTING,
    TRANSACTION_CPU, LATENCIES, LATENCY, SINK_BYTES, EDGE_RECORDS, EDGE_BYTES, SOURCE_RECORDS, LATE, DEAD, LOST, LAG,
    AT_RISK, REFUSED, TENTATIVE, TENTATIVE_CLOSED, TENTATIVE_OPEN, SPARK_BATCHES, SPARK_ROWS, SPARK_LATE, SPARK_TRIGGER,
)  # fmt: skip


def of_copies(copies_here: Callable[[], tuple[CopyState, ...]], costs_of: CostsOf | None) -> Read:
    """Returns a reader of states and costs of the copies here. `costs_of` is None if nothing is measured."""

    def read() -> Iterator[Sample]:
        copies = copies_here()
        for state, count in Counter(copy.state for copy in copies).items():
            yield COPIES.of(count, state)
        for copy in copies:
            unit = split_unit_key(copy.unit)
            yield BATCH.of(copy.batch, *unit)
            yield DURABLE.of(copy.durable, *unit)
        for costs in () if costs_of is None else costs_of([copy.unit for copy in copies]):
            yield from _spent(costs)

    return read


def _spent(costs: Costs) -> Iterator[Sample]:
    unit = split_unit_key(costs.unit)
    yield CPU.of(costs.cpu_ms / 1000, *unit)
    yield RECORDS.of(costs.processed, *unit)
    yield PROCESSING.of(costs.process_ms / 1000, *unit)
    yield UNSAVED.of(costs.unsaved, *unit)
    yield STATE_KEYS.of(costs.state_keys, *unit)
    yield STATE_BYTES.of(costs.state_bytes, *unit)
    yield CAPTURES.of(costs.captures, *unit)
    yield CAPTURING.of(costs.capture_ms / 1000, *unit)
    yield APPLIES.of(costs.applies, *unit)
    yield APPLYING.of(costs.apply_ms / 1000, *unit)
    yield WRITTEN.of(costs.checkpoint_bytes, *unit)
    yield RUN.of(costs.run_bytes, *unit)
    if costs.checkpoint_age_ms is not None:
        yield AGE.of(costs.checkpoint_age_ms / 1000, *unit)
    yield RECOVERY.of(costs.recovery_ms / 1000, *unit)
    yield SENT.of(costs.sent_bytes, *unit)
    phases = {
        "deploy": costs.deploy_ms,
        "restore": costs.restore_ms,
        "receive": costs.receive_ms,
        "send": costs.send_ms,
        "open": costs.open_ms,
        "replay": costs.replay_ms,
    }
    for phase, took_ms in phases.items():
        if took_ms is not None:
            yield PHASE.of(took_ms / 1000, *unit, phase)
    if costs.restore_cpu_ms is not None:
        yield RESTORE_CPU.of(costs.restore_cpu_ms / 1000, *unit)
    yield TRANSACTIONS.of(costs.transactions, *unit)
    yield ABORTED.of(costs.aborted, *unit)
    yield TRANSACTING.of(costs.transaction_ms / 1000, *unit)
    yield TRANSACTION_CPU.of(costs.transaction_cpu_ms / 1000, *unit)
    yield LATENCIES.of(costs.latencies, *unit)
    yield LATENCY.of(costs.latency_ms / 1000, *unit)
    for sink, size in costs.sink_bytes.items():
        yield SINK_BYTES.of(size, *unit, sink)
    for query, rows in costs.tentative.items():
        yield TENTATIVE.of(rows.published, *unit, query)
        yield TENTATIVE_CLOSED.of(rows.replaced, *unit, query, "replaced")
        yield TENTATIVE_CLOSED.of(rows.withdrawn, *unit, query, "withdrawn")
        if costs.leads:
            yield TENTATIVE_OPEN.of(rows.open, *unit, query)
    if costs.micro_batches is not None:
        yield from _micro_batches(costs.micro_batches, unit)
    if costs.leads:
        yield SOURCE_RECORDS.of(costs.records, *unit)
        yield LATE.of(costs.late, *unit)
        yield DEAD.of(costs.dead, *unit)
        yield LOST.of(costs.lost, *unit)
    for edge, (records, size) in costs.inputs.items():
        yield EDGE_RECORDS.of(records, *unit, edge, "in")
        yield EDGE_BYTES.of(size, *unit, edge)
    for edge, records in costs.outputs.items():
        yield EDGE_RECORDS.of(records, *unit, edge, "out")


def _micro_batches(found: MicroBatches, unit: tuple[str, ...]) -> Iterator[Sample]:
    yield SPARK_BATCHES.of(found.written, *unit)
    yield SPARK_ROWS.of(found.rows, *unit)
    yield SPARK_LATE.of(found.late, *unit)
    for part, took_ms in {"all": found.trigger_ms, **found.parts_ms}.items():
        yield SPARK_TRIGGER.of(took_ms / 1000, *unit, part)
