"""The lines that commands print about a cluster, also with `--json`. Source: JOBS "Details that scripts rely on"."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.schemas.leaps import Leap
from holdfast.schemas.plans import QueryState
from holdfast.services.view.trial import Trial


class JobLine(msgspec.Struct, frozen=True):
    """A line of `holdfast list`.

    available: number of units that run.
    since_ms: begin of this state, milliseconds since 1970; 0: not known.
    unprotected: units without a standby, by the reason (services/view/protection.py).
    """

    job: str
    generation: str
    state: str
    units: int
    available: int
    error: str = ""
    warnings: tuple[str, ...] = ()
    problems: tuple[dict[str, str], ...] = ()
    since_ms: int = 0
    unprotected: dict[str, tuple[str, ...]] = {}


class CopyLine(msgspec.Struct, frozen=True):
    """A copy of a unit.

    role: `primary` for the copy that commits, else `secondary`.
    """

    worker: str
    role: str
    flags: dict[str, Any]
    batch: int
    state: str
    incarnation: str
    error: str = ""


class UnitLine(msgspec.Struct, frozen=True):
    """A line of `holdfast units`.

    policy: the checkpoint policy of its copies; empty: Spark has its own.
    adaptive: true if recovery has chosen the scheme, and may change it.
    """

    unit: str
    tasks: tuple[str, ...]
    scheme: str
    epoch: int
    copies: tuple[CopyLine, ...]
    policy: str = ""
    adaptive: bool = False


class WorkerLine(msgspec.Struct, frozen=True):
    """A line of `holdfast workers`.

    state: live, leaving, stuck, silent or exited.
    copies: number of its `units`.
    host: host of its supervisor.
    address: machine and directory of its process.
    turn: place in its loop where it hangs, and for how long; empty if the loop turns.
    """

    worker: str
    pid: int
    zone: str
    state: str
    slots: int
    copies: int
    units: tuple[str, ...]
    incarnation: str
    cpu_s: float
    rss_bytes: int
    host: str = ""
    address: str = ""
    turn: str = ""


class PolicyLine(msgspec.Struct, frozen=True):
    """Checkpoint policy of a job's units.

    settings: the settings that the policy reads.
    complete: batch of the newest global checkpoint; None without global checkpoints.
    """

    policy: str
    settings: dict[str, float]
    complete: int | None = None

    def __str__(self) -> str:
        newest = [] if self.complete is None else [f"complete={self.complete}"]
        return " ".join([self.policy, *(f"{name}={value}" for name, value in self.settings.items()), *newest])


class UnitProgress(msgspec.Struct, frozen=True):
    """A line of `holdfast status`.

    watermark: ISO 8601; null before the first, `end` after the last record; of a table's own unit `loaded` once it is.
    versions: workers with other versions than the leader's, and the known facts about their bytes; empty: none.
    """

    unit: str
    worker: str
    state: str
    processed: int
    acked: int
    watermark: str | None
    records: int
    late: int
    dead: int
    lost: int
    ended: bool
    error: str = ""
    late_dropped: dict[str, int] = {}
    versions: str = ""


class Uncorrected(msgspec.Struct, frozen=True):
    """Tentative rows of a query that are not corrected yet, counted by the leaders of its sinks' units.

    rows: number of their keys.
    fidelity: the part of the query's output, 0 to 1, that did not need the lost units when the last of the rows were
        made.
    """

    rows: int
    fidelity: float


class JobStatus(msgspec.Struct, frozen=True):
    """Output of `holdfast status`; records, late, dead, lost are sums over the units.

    late: rows that operators took as late, counted by each of them.
    late_dropped: records dropped because they were late, by source, each once.
    late_by_stream: the counts from which late_dropped is computed (services/view/losses.py).
    leap: the record that moved the watermark of a source furthest and so made records late; null: none stands out.
    refused: records of the job's and the cluster's topics that could not be decoded or lack a valid seal, by topic,
        counted by each of its workers since its start.
    skipped: number of records that `holdfast repair` has skipped.
    since_ms: begin of this state, milliseconds since 1970; 0: not known.
    unserved: units without a standby, because every suitable worker has no free place.
    checkpoint: the policy in force; null: the job has no plan.
    queries: availability of each query (schemas/plans.py, QueryState).
    retention: topics that may delete records that a recovery would read again.
    out: units that no copy can continue and that have not recovered, of a job with `results: tentative`.
    fidelity: by query, the part of its output that does not need those units, 0 to 1.
    tentative: open tentative rows of the queries that have some.
    corrected: number of keys of tentative rows that were replaced by final rows or withdrawn, by query that had some,
        counted by the leaders of its sinks' units.
    unprotected: units without a standby, by the reason (services/view/protection.py).
    trial: trial of the update that made this generation; null: no update, or one without a trial.
    """

    job: str
    generation: str
    state: str
    available: int
    error: str
    warnings: tuple[str, ...]
    problems: tuple[dict[str, str], ...]
    records: int
    late: int
    dead: int
    lost: int
    units: tuple[UnitProgress, ...]
    late_dropped: dict[str, int] = {}
    late_by_stream: dict[str, int] = {}
    leap: Leap | None = None
    refused: dict[str, int] = {}
    skipped: int = 0
    since_ms: int = 0
    unserved: tuple[str, ...] = ()
    checkpoint: PolicyLine | None = None
    queries: tuple[QueryState, ...] = ()
    retention: tuple[str, ...] = ()
    out: tuple[str, ...] = ()
    fidelity: dict[str, float] = {}
    tentative: dict[str, Uncorrected] = {}
    corrected: dict[str, int] = {}
    unprotected: dict[str, tuple[str, ...]] = {}
    trial: Trial | None = None

    def state_of(self, query: QueryState) -> str:
        """The state of one of its queries, for people."""
        if query.query in self.tentative:
            return "tentative"
        return "available" if query.available else "catching up" if query.catching_up else "unavailable"
