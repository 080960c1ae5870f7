"""Costs of the copies of a job, and traffic along its edges: rates from the counters in heartbeats, for people.

Source: MECHANISMS C5, A3 and P1; schemas/costs.py describes the measurements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.costs import Costs, MicroBatches, TentativeCounts
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.kernel.fidelity.of_job import Rates, edge_rates
from holdfast.services.kernel.protection.expected import of_workers
from holdfast.services.view.latencies import Growth, QueryLatency, of_queries
from holdfast.services.view.lines import Uncorrected

RATE_MS = 15_000
"""Time span in milliseconds of the last heartbeats over which rates are means; shorter if there were none before."""


class CopyCosts(msgspec.Struct, frozen=True):
    """A line of `holdfast units --costs`: one copy. Null: not known, or not yet measured. Other fields:
    schemas/costs.py.

    load: share of one CPU that its batches, checkpoints and applied runs take; null for a Spark operator.
    records_per_s: rate of input records.
    throughput_per_s: records per second of time spent on batches: the possible rate of a replay.
    capture_ms, apply_ms: mean of a run, over the life of the process.
    transaction_ms, transaction_cpu_ms: mean of a transaction, including aborted ones.
    micro_batches: null for operators on workers, and before the first micro-batch.
    """

    unit: str
    worker: str
    incarnation: str
    role: str
    load: float | None
    records_per_s: float | None
    throughput_per_s: float | None
    unsaved: int
    state_keys: int
    state_bytes: int
    capture_ms: float | None
    apply_ms: float | None
    run_bytes: int
    checkpoint_bytes_per_s: float | None
    checkpoint_age_ms: float | None
    sent_bytes_per_s: float | None
    deploy_ms: float | None
    restore_ms: float | None
    restore_bytes: int
    receive_ms: float | None
    send_ms: float | None
    open_ms: float | None
    restore_cpu_ms: float | None
    transactions: int
    aborted: int
    transaction_ms: float | None
    transaction_cpu_ms: float | None
    recovery_ms: float
    replay_ms: float | None
    micro_batches: MicroBatches | None = None


class Recovery(msgspec.Struct, frozen=True):
    """The expected recovery time of a unit, R_u, if its worker failed now.

    R_u is a part of the time from the failure to the first output, which also includes detection and the phases of a
    takeover.

    backup: worker of the standby; empty if the unit has no standby.
    replay_ms: duration of that part at the last takeover, by which its worker leads; null: not known.
    """

    unit: str
    worker: str
    backup: str
    expected_ms: float
    replay_ms: float | None = None


class WorkerRecovery(msgspec.Struct, frozen=True):
    """The expected recovery time, R_Qi, of all units of the job that a worker leads: backups recover their groups in
    parallel.
    """

    worker: str
    expected_ms: float


class EdgeCosts(msgspec.Struct, frozen=True):
    """An edge into a unit or to a sink.

    edge: a source, an operator and the number of its topic, or a sink.
    bytes: at a sink approximate, since the start of the leader's process; null before its first delivery.
    """

    edge: str
    unit: str
    direction: str
    records: int
    bytes: int | None
    records_per_s: float | None
    bytes_per_s: float | None


class JobCosts(msgspec.Struct, frozen=True):
    """Output of `holdfast units --costs`.

    edges: counted by the leader of each unit.
    recovery: expected recovery of the units whose leader has reported.
    latencies: latencies of the queries with a measured batch.
    """

    copies: tuple[CopyCosts, ...]
    edges: tuple[EdgeCosts, ...]
    recovery: tuple[Recovery, ...] = ()
    workers: tuple[WorkerRecovery, ...] = ()
    latencies: tuple[QueryLatency, ...] = ()


class _Sample(NamedTuple):
    time_ms: int
    costs: Costs


class _Counted:
    """Counters that one incarnation has reported of one unit: the last values, and older values
    to compare them with.
    """

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        self.latencies = Growth()

    def add(self, sample: _Sample) -> None:
        if self._samples and sample.time_ms <= self._samples[-1].time_ms:
            return
        if self._samples:
            self.latencies.add(sample.time_ms, self.last, sample.costs)
        self._samples.append(sample)
        while sample.time_ms - self._samples[0].time_ms > RATE_MS:
            self._samples.popleft()

    @property
    def last(self) -> Costs:
        return self._samples[-1].costs

    @property
    def first(self) -> Costs:
        return self._samples[0].costs

    def per_s(self, now: float, before: float) -> float | None:
        """Rate of a counter per second, given its last value and its first; None without a time span. Records are
        counted again after a reload.
        """
        return _mean(max(0, now - before) * 1000, self._samples[-1].time_ms - self._samples[0].time_ms)


class CostsView:
    """Folds heartbeats; only the newest incarnation of each worker counts."""

    def __init__(self) -> None:
        self._incarnations: dict[str, str] = {}
        self._counted: dict[tuple[str, str], _Counted] = {}

    def read(self, beat: Heartbeat) -> None:
        known = self._incarnations.get(beat.worker, "")
        if beat.incarnation < known:
            return
        if beat.incarnation != known:
            self._incarnations[beat.worker] = beat.incarnation
            for key in [key for key in self._counted if key[0] == beat.worker]:
                del self._counted[key]
        for costs in beat.costs:
            self._counted.setdefault((beat.worker, costs.unit), _Counted()).add(_Sample(beat.time_ms, costs))

    def job(self, plan: Plan, changes: Mapping[str, Change | None]) -> JobCosts:
        """Costs of the copies in these changes, which are given by unit."""
        copies: list[CopyCosts] = []
        edges: list[EdgeCosts] = []
        latencies: dict[str, Growth] = {}
        between = {edge_of(one.topic) for one in plan.edges if one.topic is not None}
        for unit, change in changes.items():
            key = unit_key(plan.job, plan.generation, unit)
            for copy in () if change is None else change.copies:
                counted = self._counted.get((copy.worker, key))
                if counted is None or self._incarnations[copy.worker] != copy.incarnation:
                    continue
                role = "primary" if copy.flags.commit else "secondary"
                copies.append(_copy(unit, copy.worker, copy.incarnation, role, counted))
                if copy.flags.commit:
                    edges += _edges(unit, counted, between)
                    latencies[unit] = counted.latencies
        by_unit: dict[str, list[CopyCosts]] = {}
        for one in copies:
            by_unit.setdefault(one.unit, []).append(one)
        recovery = tuple(_recovery(unit, by_unit[unit]) for unit in by_unit if any(map(_leads, by_unit[unit])))
        return JobCosts(
            tuple(copies), tuple(edges), recovery, tuple(_workers(recovery)), latencies=of_queries(plan, latencies)
        )

    def tentative(self, plan: Plan, changes: Mapping[str, Change | None]) -> dict[str, Uncorrected]:
        """Open tentative rows by query, for the queries that have some, counted by the leaders of the units."""
        found: dict[str, Uncorrected] = {}
        for query, one in self._tentative(plan, changes):
            if one.open:
                known = found.get(query, Uncorrected(0, 1.0))
                found[query] = Uncorrected(known.rows + one.open, min(known.fidelity, one.fidelity))
        return found

    def corrected(self, plan: Plan, changes: Mapping[str, Change | None]) -> dict[str, int]:
        """Number of keys of tentative rows that were replaced or withdrawn, by query, for the queries that had some."""
        found: dict[str, int] = {}
        for query, one in self._tentative(plan, changes):
            if one.published:
                found[query] = found.get(query, 0) + one.replaced + one.withdrawn
        return found

    def _tentative(self, plan: Plan, changes: Mapping[str, Change | None]) -> Iterator[tuple[str, TentativeCounts]]:
        """Query and counts, for each leader."""
        for unit, change in changes.items():
            leader = None if change is None else change.committer
            counted = None if leader is None else self._counted.get(
                (leader.worker, unit_key(plan.job, plan.generation, unit))
            )  # fmt: skip
            if counted is not None and counted.last.leads:
                yield from counted.last.tentative.items()

    def rates(self, plan: Plan, changes: Mapping[str, Change | None]) -> Rates:
        """Records per second along the edges, counted by the leaders of the units (MECHANISMS P1)."""
        inputs: dict[tuple[str, str], float] = {}
        outputs: dict[tuple[str, str], float] = {}
        for unit, change in changes.items():
            leader = None if change is None else change.committer
            counted = None if leader is None else self._counted.get(
                (leader.worker, unit_key(plan.job, plan.generation, unit))
            )  # fmt: skip
            if counted is None:
                continue
            for edge, (records, _) in counted.last.inputs.items():
                rate = counted.per_s(records, counted.first.inputs.get(edge, (0, 0))[0])
                inputs |= {} if rate is None else {(unit, edge): rate}
            for edge, records in counted.last.outputs.items():
                rate = counted.per_s(records, counted.first.outputs.get(edge, 0))
                outputs |= {} if rate is None else {(unit, edge): rate}
        return edge_rates(plan, inputs, outputs)


def _copy(unit: str, worker: str, incarnation: str, role: str, counted: _Counted) -> CopyCosts:
    last, first = counted.last, counted.first
    cpu_ms_per_s = counted.per_s(last.cpu_ms, first.cpu_ms)
    return CopyCosts(
        unit=unit,
        worker=worker,
        incarnation=incarnation,
        role=role,
        load=None if cpu_ms_per_s is None or not last.cpu_ms else round(cpu_ms_per_s / 1000, 4),
        records_per_s=counted.per_s(last.processed, first.processed),
        throughput_per_s=_throughput(last, first),
        unsaved=last.unsaved,
        state_keys=last.state_keys,
        state_bytes=last.state_bytes,
        capture_ms=_mean(last.capture_ms, last.captures),
        apply_ms=_mean(last.apply_ms, last.applies),
        run_bytes=last.run_bytes,
        checkpoint_bytes_per_s=counted.per_s(last.checkpoint_bytes, first.checkpoint_bytes),
        checkpoint_age_ms=last.checkpoint_age_ms,
        sent_bytes_per_s=counted.per_s(last.sent_bytes, first.sent_bytes),
        deploy_ms=last.deploy_ms,
        restore_ms=last.restore_ms,
        restore_bytes=last.restore_bytes,
        receive_ms=last.receive_ms,
        send_ms=last.send_ms,
        open_ms=last.open_ms,
        restore_cpu_ms=last.restore_cpu_ms,
        transactions=last.transactions,
        aborted=last.aborted,
        transaction_ms=_mean(last.transaction_ms, last.transactions + last.aborted),
        transaction_cpu_ms=_mean(last.transaction_cpu_ms, last.transactions + last.aborted),
        recovery_ms=last.recovery_ms,
        replay_ms=last.replay_ms,
        micro_batches=last.micro_batches,
    )


def _leads(copy: CopyCosts) -> bool:
    return copy.role == "primary"


def _recovery(unit: str, copies: Iterable[CopyCosts]) -> Recovery:
    """Recovery time of a unit, from its copies. The first of several standbys would take over, as a second one is made
    beside it during a move.
    """
    own = sorted(copies, key=_leads, reverse=True)[:2]
    backup = own[1].worker if len(own) > 1 else ""
    return Recovery(
        unit, own[0].worker, backup, round(sum(one.recovery_ms for one in own), 3), replay_ms=own[0].replay_ms
    )


def _workers(recovery: Iterable[Recovery]) -> Iterator[WorkerRecovery]:
    groups: dict[tuple[str, str], float] = {}
    for one in recovery:
        group = one.worker, one.backup
        groups[group] = groups.get(group, 0.0) + one.expected_ms
    for worker, expected_ms in sorted(of_workers(groups).items()):
        yield WorkerRecovery(worker, round(expected_ms, 3))


def _throughput(last: Costs, first: Costs) -> float | None:
    """Records per second of recent processing time, or of the process's life if no record came recently."""
    if last.processed > first.processed:
        return _mean((last.processed - first.processed) * 1000, last.process_ms - first.process_ms)
    return _mean(last.processed * 1000, last.process_ms) if last.processed else None


def _edges(unit: str, counted: _Counted, between: set[str]) -> Iterator[EdgeCosts]:
    """Inputs of the unit, and its output to sinks. The receiving unit counts traffic between units."""
    last, first = counted.last, counted.first
    for edge, (records, size) in sorted(last.inputs.items()):
        before = first.inputs.get(edge, (0, 0))
        rates = counted.per_s(records, before[0]), counted.per_s(size, before[1])
        yield EdgeCosts(edge, unit, "in", records, size, *rates)
    for edge, records in sorted(last.outputs.items()):
        if edge not in between:
            written = last.sink_bytes.get(edge)
            rate = None if written is None else counted.per_s(written, first.sink_bytes.get(edge, 0))
            per_s = counted.per_s(records, first.outputs.get(edge, 0))
            yield EdgeCosts(edge, unit, "out", records, bytes=written, records_per_s=per_s, bytes_per_s=rate)


def _mean(total: float, count: float) -> float | None:
    return round(total / count, 3) if count else None
