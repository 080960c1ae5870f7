"""Reports of a copy in heartbeats: its progress in every heartbeat, its costs in some.

Source: PROTOCOL 5; MECHANISMS C5, A3 and P1. schemas/heartbeats.py and schemas/costs.py define each value.
"""

from __future__ import annotations

from holdfast.schemas.costs import Costs
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.core.edges import taken_in
from holdfast.services.worker.core.lifecycle import Lifecycle, State
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.unit.turns.running_copy import RunningCopy


def state_of(
    unit: str, core: Lifecycle, running: RunningCopy | None, stands: str = "", ready: Rebuilt | None = None
) -> CopyState:
    """The state of a copy, for a heartbeat.

    Args:
        running: the copy at work; None if it has no state now.
        stands: reason why no row is delivered; empty if rows are delivered or none wait.
        ready: state of a copy whose job stands by.
    """
    now = None if running is None else running.condition
    marker = None if now is None else now.marker
    return CopyState(
        unit,
        core.epoch,
        core.state.value,
        now.batch
        if now is not None
        else core.reached
        if core.state is State.FAULTED
        else 0
        if ready is None
        else ready.batch,
        error=core.error,
        durable=0 if marker is None else marker.b,
        stopped="" if running is None else running.intake.cutter.stopped,
        waits="; ".join(filter(None, ("" if now is None else now.waits, stands))),
        risk="" if running is None else running.cuts.retention.text,
        shows=() if now is None else now.shows,
    )


def costs_of(unit: str, spent: Spent, running: RunningCopy | None, now_ms: float, leads: bool) -> Costs:
    """The costs of a copy, for heartbeats and metrics; from any thread. `leads` is True if it commits for the unit."""
    keys = 0 if running is None else running.checkpoints.store.keys
    marker, edges = None if running is None else running.condition.marker, spent.edges
    counts = {} if running is None or not leads else running.condition.counts
    return Costs(
        unit=unit,
        inputs=dict(edges.inputs),
        outputs=dict(edges.outputs),
        unsaved=0 if running is None else max(0, edges.records - taken_in({} if marker is None else marker.counts)),
        cpu_ms=round(spent.cpu_ms, 3),
        processed=spent.processed,
        process_ms=round(spent.process_ms, 3),
        captures=spent.captures,
        capture_ms=round(spent.capture_ms, 3),
        applies=spent.applies,
        apply_ms=round(spent.apply_ms, 3),
        checkpoint_bytes=spent.checkpoint_bytes,
        run_bytes=spent.run_bytes,
        checkpoint_age_ms=None if spent.marked_ms is None else round(now_ms - spent.marked_ms, 1),
        sent_bytes=spent.sent_bytes,
        state_keys=keys,
        state_bytes=spent.entry.of(keys),
        deploy_ms=_rounded(spent.deploy_ms),
        restore_ms=_rounded(spent.restore_ms),
        restore_bytes=spent.restore_bytes,
        receive_ms=_rounded(spent.receive_ms),
        send_ms=_rounded(spent.send_ms),
        open_ms=_rounded(spent.open_ms),
        leads=leads,
        recovery_ms=0.0 if running is None else round(running.policy_view.recovery_ms, 3),
        records=counts.get("records", 0),
        late=counts.get("late", 0),
        dead=counts.get("dead", 0) + (running.outputs.delivery.too_large if running is not None and leads else 0),
        lost=counts.get("lost", 0),
        transactions=spent.transactions,
        transaction_ms=round(spent.transaction_ms, 3),
        transaction_cpu_ms=round(spent.transaction_cpu_ms, 3),
        aborted=spent.aborted,
        sink_bytes=dict(spent.sink_bytes),
        restore_cpu_ms=_rounded(spent.restore_cpu_ms),
        latencies=spent.latencies,
        latency_ms=spent.latency_ms,
        waits_since_ms=spent.waits_since_ms,
        replay_ms=_rounded(spent.replay_ms),
        tentative=dict(spent.tentative),
    )


def happened(
    time_ms: int, unit: tuple[str, str], epoch: int, batch: int, kind: str, detail: str, phases: dict[str, float] | None
) -> Event:
    """An event of a copy.

    Args:
        unit: job, and name of the unit in it.
        batch: last batch done; -1 for a copy without state.
    """
    job, name = unit
    return Event(
        time_ms=time_ms,
        kind=kind,
        job=job,
        unit=name,
        epoch=epoch,
        detail=detail,
        phases_ms=phases or {},
        batch=batch,
    )


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 1)
