"""Tables of a job's costs, for people."""

from __future__ import annotations

from holdfast.services.cli.terminal import print_table
from holdfast.services.view.costs import CopyCosts, EdgeCosts, JobCosts, Recovery
from holdfast.services.view.latencies import QueryLatency

_LOAD = ("unit", "role", "worker", "load", "records/s", "throughput/s")
_STATE = ("unit", "role", "worker", "unsaved", "keys", "state", "capture ms", "apply ms", "run", "age ms")
_PHASES = ("unit", "role", "worker", "deploy", "restore", "its CPU", "restored", "receive", "send", "open outputs")
_RECOVERY = ("unit", "worker", "backup", "expected ms", "last takeover ms")
_DELIVERIES = ("unit", "role", "worker", "transactions", "aborted", "mean ms", "mean CPU ms")
_MICRO_BATCHES = ("unit", "worker", "micro-batches", "rows out", "late", "last ms", "of it")
_LATENCIES = ("query", "batches", "half within ms", "99 of 100 within ms")
_EDGES = ("edge", "", "unit", "records", "bytes", "records/s", "bytes/s")


_PARTS = 3
"""Number of the longest parts of a micro-batch's time that are shown."""


def draw_costs(found: JobCosts) -> None:
    """Load and state, then expected recovery, phases, transactions, latencies and edges."""
    print_table(_LOAD, map(_load, found.copies), title="load", empty="no copy has reported its costs yet")
    if found.copies:
        print_table(_STATE, map(_state, found.copies), title="state, and its newest checkpoint")
    if found.recovery:
        worst = ", ".join(f"{one.worker} {_ms(one.expected_ms)} ms" for one in found.workers)
        print_table(_RECOVERY, map(_recovery, found.recovery), title=f"expected recovery; all units of {worst}")
    if found.copies:
        print_table(_PHASES, map(_phases, found.copies), title="phases as measured last, milliseconds")
    if any(one.transactions or one.aborted for one in found.copies):
        print_table(_DELIVERIES, map(_deliveries, found.copies), title="transactions")
    if any(one.micro_batches for one in found.copies):
        print_table(_MICRO_BATCHES, filter(None, map(_micro_batches, found.copies)), title="micro-batches on Spark")
    if found.latencies:
        print_table(_LATENCIES, map(_latency, found.latencies), title="latency of the last minute")
    if found.edges:
        print_table(_EDGES, map(_edge, found.edges), title="edges")


def _load(one: CopyCosts) -> tuple[object, ...]:
    return (
        one.unit, one.role, one.worker, None if one.load is None else f"{one.load:.1%}", _whole(one.records_per_s),
        _whole(one.throughput_per_s),
    )  # fmt: skip


def _state(one: CopyCosts) -> tuple[object, ...]:
    return (
        one.unit, one.role, one.worker, one.unsaved, one.state_keys, _size(one.state_bytes), _ms(one.capture_ms),
        _ms(one.apply_ms), _size(one.run_bytes), _whole(one.checkpoint_age_ms),
    )  # fmt: skip


def _recovery(one: Recovery) -> tuple[object, ...]:
    return (one.unit, one.worker, one.backup or "-", _ms(one.expected_ms), _ms(one.replay_ms))


def _phases(one: CopyCosts) -> tuple[object, ...]:
    return (
        one.unit, one.role, one.worker, _ms(one.deploy_ms), _ms(one.restore_ms), _ms(one.restore_cpu_ms),
        _size(one.restore_bytes),
        _ms(one.receive_ms), _ms(one.send_ms), _ms(one.open_ms),
    )  # fmt: skip


def _deliveries(one: CopyCosts) -> tuple[object, ...]:
    mean = _ms(one.transaction_ms), _ms(one.transaction_cpu_ms)
    return (one.unit, one.role, one.worker, one.transactions, one.aborted, *mean)


def _micro_batches(one: CopyCosts) -> tuple[object, ...] | None:
    if (found := one.micro_batches) is None:
        return None
    longest = sorted(found.parts_ms.items(), key=lambda part: part[1], reverse=True)[:_PARTS]
    parts = ", ".join(f"{part} {took_ms:,.0f}" for part, took_ms in longest)
    return (one.unit, one.worker, found.written, found.rows, found.late, _ms(found.trigger_ms), parts)


def _latency(one: QueryLatency) -> tuple[object, ...]:
    return (one.query, one.batches, _ms(one.p50_ms), _ms(one.p99_ms))


def _edge(one: EdgeCosts) -> tuple[object, ...]:
    way = "into" if one.direction == "in" else "out of"
    rates = _whole(one.records_per_s), None if one.bytes_per_s is None else _size(round(one.bytes_per_s))
    return (one.edge, way, one.unit, one.records, _size(one.bytes), *rates)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _ms(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}"


def _size(size: int | None) -> str | None:
    """Bytes, in the unit that leaves the fewest digits."""
    if size is None:
        return None
    amount, names = float(size), ["B", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(names) > 1:
        amount, names = amount / 1024, names[1:]
    return f"{amount:,.0f} {names[0]}" if names[0] == "B" else f"{amount:,.1f} {names[0]}"
