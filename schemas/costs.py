"""Costs of one copy of a unit, and its traffic: counters that only grow, from which a reader derives rates.

Source: MECHANISMS C5 (load, capture and paste cost), A3 and A4 (phases of a recovery, use of CPU and network), P1
(rates of streams), S3 (size of a checkpoint).
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.decoders import Count


class TentativeCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tentative rows of one query, in transactions that one copy has made.

    published: number of rows.
    replaced: number of keys that a final row has closed.
    withdrawn: number of keys that a record without a value has closed.
    open: number of keys of the unit that are not closed; of a copy that commits for it.
    fidelity: of the rows that were published last, 0 to 1.
    """

    published: Count = 0
    replaced: Count = 0
    withdrawn: Count = 0
    open: Count = 0
    fidelity: float = 0.0


class MicroBatches(msgspec.Struct, frozen=True, omit_defaults=True):
    """Micro-batches that a query on Spark has written in this process, and Spark's reports about them.

    written: number of micro-batches.
    rows: number of their output rows.
    late: number of rows that Spark dropped as older than the watermark.
    trigger_ms: duration of the newest one that Spark has reported.
    parts_ms: parts of that duration by Spark's own names, such as `addBatch`.
    """

    written: Count = 0
    rows: Count = 0
    late: Count = 0
    trigger_ms: float = 0.0
    parts_ms: dict[str, float] = {}


class Costs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Costs of one copy. Counters of time and bytes begin with its process; those of records with the job's generation.

    inputs: records and bytes taken up to its batch, by edge: `<source>`, or `<operator>.<n>` for a topic between units.
        Bytes of a user's topic are an estimate.
    outputs: records put out, by edge: `<operator>.<n>` or `<sink>`.
    unsaved: records taken since the newest valid marker, to be replayed after a failure.
    cpu_ms: CPU time of the copy's thread: on batches, on its own checkpoints and on those that it applies.
    processed, process_ms: records of the batches that this process ran, and the time that these batches took.
    captures, capture_ms: runs written, and the time that they took.
    applies, apply_ms: runs of other copies applied, and the time that they took.
    checkpoint_bytes: bytes appended to the checkpoint log.
    run_bytes: size of the last run.
    checkpoint_age_ms: time since the newest valid marker was read; null: none was read.
    sent_bytes: bytes of frames.
    state_keys: number of keys as of its batch.
    state_bytes: size of the state, estimated by the mean of the last encoded or applied entries.
    leads: true if the copy commits for the unit, so that its counts are the unit's.
    records, late, dead, lost: of the unit since the start of the generation, as in schemas/progress.py.
    transactions, aborted: transactions committed, and those of which no commit is known.
    transaction_ms, transaction_cpu_ms: the time of both, and the CPU time of their threads.
    sink_bytes: estimated bytes of rows delivered since the start of the process, by sink.
    recovery_ms: this copy's part of the unit's expected recovery time. At the leader it is the time spent on batches
        since the newest valid capture began, which a standby would repeat; at a suspended copy it is the time to apply
        the waiting runs. The sum over the copies is R_u.
    latencies: batches, some of each second, whose time from the arrival of the oldest record to the output is known.
    latency_ms: the sum of these times.
    waits_since_ms: arrival of the oldest record of such a batch without output, time of day; 0: none waits.
    tentative: by query with tentative results.
    micro_batches: of a Spark operator.

    Each phase of a takeover, as measured last; null: not yet.

    deploy_ms: loading and warming the operators.
    restore_ms, restore_bytes: reading and applying the checkpoint log, and the bytes read.
    restore_cpu_ms: CPU time of the thread that restored.
    receive_ms: from the flag until every input has answered.
    send_ms: from the first frame after the flag until it is acknowledged.
    open_ms: from the flag until the copy may write to the sinks.
    replay_ms: of the takeover by which the copy leads, until all earlier processing is repeated.
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
