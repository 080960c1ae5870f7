"""Costs of one copy of a unit, and its traffic: counters that only grow, from which a reader derives rates.

Source: MECHANISMS C5 (load, capture and paste cost), A3 and A4 (phases of a recovery, use of CPU and network), P1
(rates of streams), S3 (size of a checkpoint).
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.reading import Count


class TentativeCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tentative rows of one query, in transactions that one copy has made.

    published: rows.
    replaced: keys that a final row has closed.
    withdrawn: keys that a record without a value has closed.
    open: keys of the unit that are not closed; of a copy that commits for it.
    fidelity: of the rows that were published last, 0 to 1.
    """

    published: Count = 0
    replaced: Count = 0
    withdrawn: Count = 0
    open: Count = 0
    fidelity: float = 0.0


class MicroBatches(msgspec.Struct, frozen=True, omit_defaults=True):
    """Micro-batches that a query on Spark has written in this process, and what Spark reports of them.

    written: how many. rows: that came out of them. late: rows that Spark dropped as older than the watermark.
    trigger_ms: time from the start of the newest one that Spark has reported to its end. parts_ms: of that time by
    Spark's own names, such as `addBatch`.
    """

    written: Count = 0
    rows: Count = 0
    late: Count = 0
    trigger_ms: float = 0.0
    parts_ms: dict[str, float] = {}


class Costs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Costs of one copy. Counters of time and bytes begin with its process; those of records with the job's generation.

    inputs: records and bytes taken in up to its batch, by edge: `<source>`, or `<operator>.<n>` for a topic between
    units. Bytes of a user's topic are counted about. outputs: records put out, by edge: `<operator>.<n>` or `<sink>`.
    unsaved: records taken in since the newest valid marker, to be replayed after a failure.

    cpu_ms: CPU time of the thread that turns the copy: on batches, on its own checkpoints and on those that it applies.
    processed: records of the batches that this process ran; process_ms: the time that these batches took.
    captures, applies: runs written, and runs of other copies applied; capture_ms, apply_ms: the time that they took.
    checkpoint_bytes: appended to the checkpoint log; run_bytes: of the last run. checkpoint_age_ms: since the newest
    valid marker was read; null: it has read none. sent_bytes: of frames.
    state_keys: as of its batch; state_bytes: about, by the mean of what was last encoded or applied.

    leads: its copy commits for the unit, so its counts are the unit's. records, late, dead, lost: of the unit since the
    start of the generation, as in schemas/progress.py.
    transactions: committed; aborted: of which nothing is known to be committed. transaction_ms, transaction_cpu_ms: the
    time that both took, and the CPU time of their threads. sink_bytes: of rows delivered, about, by sink; they begin
    with the process.

    recovery_ms: this copy's part of the unit's expected recovery time: at the leader the time spent on batches since
    the newest valid capture began, which a standby would repeat; at a suspended copy what applying the runs that wait
    would take. The sum over the copies is R_u.

    latencies: batches of which it is known how long they took from the arrival of their oldest record until their rows
    were out, some of each second; latency_ms: the sum. waits_since_ms: since when the oldest record waits of such a
    batch that is not out, time of day; 0: none does.

    tentative: by query with tentative results. micro_batches: of a Spark operator.

    Phases, each by itself and as measured last; null: not yet. deploy_ms: loading and warming the operators.
    restore_ms: reading and applying the checkpoint log, of restore_bytes; restore_cpu_ms: CPU time of the thread that
    did it. receive_ms: from the flag until every input has answered. send_ms: from the first frame after the flag until
    it is acknowledged. open_ms: from the flag until it may write to the sinks.
    replay_ms: of the takeover by which it leads, until all was done again that was known to be processed before.
    """

    unit: str
    inputs: dict[str, tuple[Count, Count]] = {}
    outputs: dict[str, Count] = {}
    unsaved: Count = 0
    cpu_ms: float = 0.0
    processed: Count = 0
    process_ms: float = 0.0
    captures: Count = 0
    capture_ms: float = 0.0
    applies: Count = 0
    apply_ms: float = 0.0
    checkpoint_bytes: Count = 0
    run_bytes: Count = 0
    checkpoint_age_ms: float | None = None
    sent_bytes: Count = 0
    state_keys: Count = 0
    state_bytes: Count = 0
    deploy_ms: float | None = None
    restore_ms: float | None = None
    restore_bytes: Count = 0
    receive_ms: float | None = None
    send_ms: float | None = None
    open_ms: float | None = None
    leads: bool = False
    records: Count = 0
    late: Count = 0
    dead: Count = 0
    lost: Count = 0
    transactions: Count = 0
    transaction_ms: float = 0.0
    transaction_cpu_ms: float = 0.0
    aborted: Count = 0
    sink_bytes: dict[str, Count] = {}
    restore_cpu_ms: float | None = None
    recovery_ms: float = 0.0
    latencies: Count = 0
    latency_ms: Count = 0
    waits_since_ms: Count = 0
    replay_ms: float | None = None
    tentative: dict[str, TentativeCounts] = {}
    micro_batches: MicroBatches | None = None
