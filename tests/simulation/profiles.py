"""Profiles: what histories are drawn under, where a coincidence that a bug needs is too rare among all of them.

A profile weighs faults and jobs; processes, cores, broker and checkers are the same under all. To add one, add one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Profile:
    """Things that are drawn more often, and things that every history has. The defaults are those of ordinary
    histories.
    """

    # what is drawn
    faults: Mapping[str, float] = field(default_factory=dict)
    """Factor of how often a kind of fault comes; none named: as in ordinary histories."""
    operators: tuple[str, ...] = ()
    """The kinds that are drawn; like `schemes`, `strikes` and `lags`, empty means all."""
    schemes: tuple[str, ...] = ()
    strikes: tuple[str, ...] = ()
    lags: tuple[str, ...] = ()
    led: tuple[str, ...] = ()
    """Kinds of topics whose leaders go away."""
    policies: tuple[str, ...] = ()
    """The job's checkpoint policy is one of these; empty: sweep."""
    retains: tuple[str, ...] = ()
    """With incidents: the values of `buffering`; empty: any."""
    pause_ms: int = 0
    """At least so long between two faults."""

    # the cluster
    controllers: int = 1
    """At least so many; of recovery replicas likewise."""
    replicas: int = 1
    slots: int = 4
    """Units that a worker takes."""
    standbys: tuple[int, ...] = ()
    """Standbys that a worker takes at most; where it is bounded, queries have priorities."""
    calm_ms: int | None = None
    """Time of calm before a unit moves for balance; None: none does."""
    reassigns: bool = False
    """Copies report their costs, so that standbys move between workers; there are three workers at least."""
    patient: bool = False
    """Units wait long for their worker to come back."""
    short_lived: bool = False
    """The broker ends transactions that hold more than one batch, as if their writers had died."""
    versions: bool = False
    """Each worker has one of two versions of the code that raises. A copy may then stop and say so."""
    odd: bool = False
    """Every job has an operator that gives other rows with odd versions of libraries."""

    # the job
    fresh: float = 0.7
    """Share of operators that read a stream that nobody reads yet."""
    idle_after_s: float | None = None
    """Setting of every source; None: drawn."""
    metadata: bool = False
    """Sources have offset and partition of their records as columns."""
    table: bool = False
    """Every job joins one of its streams with a table."""
    spark: bool = False
    """Every job has an operator on Spark drivers; behind: it reads what another one gives; inputs: the first source,
    too."""
    behind: bool = False
    inputs: bool = False
    query_files: bool = False
    """Drivers see no checkpoints of each other: the files go through Kafka."""
    raises: bool = False
    """Every job has an operator whose code raises."""
    asks: bool = False
    """Every job has an operator whose code awaits answers of a service that is away now and then, and says something
    else each time.
    """
    clocked: bool = False
    """Every job has an operator with timers by the time of day."""
    updates: bool = False
    """A person replaces the job by its next generation again and again."""
    continues: bool = False
    """Records that are gone before they were cut count as lost."""
    trims: bool = False
    """The cut log is trimmed while the job runs."""
    bounded: bool = False
    """The job has `retain_bytes`, and what it sends reaches that."""
    paced: bool = False
    """Jobs have a latency budget, so that their topics are read when a batch is due."""
    stretched: bool = False
    """Jobs do not say how far apart batches are, so that this follows how long they take."""
    adaptive: bool = False
    """Recovery chooses schemes by what copies measure."""
    budget: bool = False
    """Jobs have a replication budget, and the rates of their sources move."""
    gaps: bool = False
    """Copies that take over skip what came since the newest checkpoint."""
    tentative: bool = False
    """Queries have tentative results, so that outages of units are noted."""
    fork: bool = False
    """Every job is one whose windows, or sessions, continue while some of its sources are out; workers have no
    more slots than there are units, so that units wait for their worker."""
    incidents: bool = False
    """Jobs say how units that failed together are restored."""


_REPLICATED = ("hybrid", "active-standby", "active-replication", "passive-hot")

_POLICIES = ("synchronous", "individual", "aligned", "idle-minmax", "idle-roundrobin", "whole-worker")

_ANYTHING = (
    "crash", "crash-at", "strike", "lag", "stall", "slow", "stuck-loop", "hung", "lost-heartbeats", "late-heartbeats",
    "cut", "outage", "clock", "command", "resubmit", "stale",
)  # fmt: skip
"""Faults of ordinary histories."""


PROFILES: Mapping[str, Profile] = {
    "": Profile(),
    "two-in-charge": Profile(
        {"lost-heartbeats": 6, "late-heartbeats": 4, "lag": 6, "strike": 4, "crash": 0.2},
        schemes=_REPLICATED,
    ),
    "fan-out": Profile({"lag": 4, "stall": 2}, ("totals", "windows"), fresh=0.0),
    "standby": Profile(
        {"lag": 4, "strike": 4, "lost-heartbeats": 3},
        ("windows", "totals", "join"),
        ("passive-hot", "hybrid", "active-standby", "passive-cold"),
    ),
    "takeovers": Profile(
        {"usurped": 12, "strike": 6},
        schemes=_REPLICATED,
        strikes=("delivered deaf", "delivered stalls"),
    ),
    "unsent": Profile({"dies-behind": 12, "crash": 0.2}, schemes=("active-standby",)),
    "runs": Profile(
        {"strike": 12, "lag": 6, "crash": 0.2},
        ("totals", "windows", "join"),
        _REPLICATED,
        strikes=("checkpoints again", "checkpoints stalls", "checkpoints dies"),
        lags=("data out", "checkpoints in"),
    ),
    "table": Profile(table=True),
    "leaders": Profile({"leaderless": 30, "crash": 0.5}),
    "idle": Profile({"leaderless": 30, "crash": 0.2}, ("windows", "join"), led=("source",), idle_after_s=0.3),
    "unsettled": Profile(
        {"outage": 40, "lost-heartbeats": 20, "late-heartbeats": 10, "crash": 0.5}, schemes=_REPLICATED, pause_ms=300
    ),
    "standstills": Profile(
        {"stood": 40, "lost-heartbeats": 4, "outage": 4, "crash": 0.5}, schemes=_REPLICATED, pause_ms=500
    ),
    "unreturned": Profile(dict.fromkeys(_ANYTHING, 0) | {"unreturned": 40}, schemes=_REPLICATED, pause_ms=6_000),
    "short-lived": Profile({"crash": 2}, fresh=0.2, short_lived=True),
    "growth": Profile({"grown": 12}),
    "lives": Profile({"outrun": 40, "unserved": 30, "crash": 0.2, "clock": 0.2}, controllers=2, pause_ms=2_500),
    "flapping": Profile(
        {"flapping": 30, "rolling-back": 5, "crash": 0.5},
        ("totals", "windows", "join"),
        ("hybrid",),
        replicas=2,
        pause_ms=500,
    ),
    "minds": Profile(
        {"mind-changed": 30, "rolling-back": 20, "crash": 0.2},
        ("totals", "windows"),
        ("active-replication", "hybrid", "hybrid"),
    ),
    "moves": Profile(
        {"move": 20, "moving": 40, "leave": 20, "strike": 2, "lost-heartbeats": 2, "crash": 0.5}, calm_ms=400
    ),
    "standbys": Profile(
        {"reassigning": 40, "crash": 2, "strike": 2, "lag": 2, "leave": 1},
        ("totals", "windows", "join"),
        ("hybrid", "hybrid", "passive-hot", "passive-cold"),
        pause_ms=300,
        reassigns=True,
        slots=24,
    ),
    "shared": Profile(
        {"crash": 3, "leave": 2, "reassigning": 4, "command": 2},
        ("totals", "windows", "filter"),
        ("hybrid", "passive-hot", "active-standby"),
        fresh=0.2,
        pause_ms=800,
        reassigns=True,
        slots=24,
        standbys=(0, 1, 1),
    ),
    "balance": Profile({"crash": 3, "leave": 6}, ("totals", "windows"), pause_ms=1_500, calm_ms=200),
    "renewed": Profile({"replaced": 30, "sink-gone": 15, "crash": 0.5, "command": 0, "resubmit": 0}, pause_ms=500),
    "unplaced": Profile(
        {"unplaced": 40} | dict.fromkeys(_ANYTHING, 0),
        ("totals", "windows", "filter"),
        schemes=("none",),
        fresh=0.2,
        pause_ms=2_500,
        patient=True,
    ),
    "losses": Profile(
        {"retention": 40, "crash": 2, "command": 0, "resubmit": 0, "outage": 0.2},
        schemes=_REPLICATED,
        pause_ms=800,
        continues=True,
    ),
    "spark": Profile(
        {"strike": 12, "crash": 2, "stall": 2},
        ("filter", "select", "totals", "windows"),
        strikes=("heavy dies", "heavy dies", "heavy stalls", "heavy deaf", "heavy cut", "heavy again"),
        spark=True,
    ),
    "hangs": Profile({"hung": 15, "stuck-loop": 40, "crash": 0.5}, pause_ms=500),
    "deadly": Profile({"deadly": 40, "killed": 40, "crash": 0.5, "command": 0, "resubmit": 0}, pause_ms=500),
    "errors": Profile({"unexpected": 60, "crash": 4, "stall": 2, "resubmit": 0}, pause_ms=300),
    "upgrades": Profile(
        {"upgraded": 30, "accept": 6, "crash": 8, "move": 20, "resubmit": 0},
        ("filter", "totals", "windows"),
        _REPLICATED,
        pause_ms=500,
        odd=True,
    ),
    "formats": Profile({"newer": 30, "stall": 2, "resubmit": 0}, ("filter", "totals", "windows"), fresh=0.2),
    "trimmed": Profile(
        {"strike": 4, "lag": 8, "stall": 4},
        ("filter", "totals", "windows", "join"),
        lags=("cuts in", "cuts in", "checkpoints in", "assignments in"),
        trims=True,
    ),
    "outrun": Profile(
        {"left-behind": 60, "crash": 0.2, "stall": 0.5},
        ("filter", "totals"),
        _REPLICATED,
        pause_ms=500,
        trims=True,
    ),
    "spark-trimmed": Profile(
        {"strike": 12, "crash": 2, "stall": 2, "lag": 4},
        ("filter", "select", "totals", "windows"),
        strikes=("heavy dies", "heavy dies", "heavy stalls", "heavy deaf", "heavy cut", "heavy again"),
        lags=("cuts in", "cuts in"),
        spark=True,
        trims=True,
    ),
    "raises": Profile(
        {"strike": 4, "lag": 8, "stall": 2, "usurped": 4},
        ("filter", "totals", "windows", "union"),
        lags=("cuts in", "cuts out", "checkpoints in", "assignments in"),
        strikes=("cuts dies", "cuts stalls", "cuts again", "delivered dies", "data stalls"),
        raises=True,
        trims=True,
    ),
    "versions": Profile(
        {"strike": 4, "lag": 8, "stall": 4, "usurped": 4, "in-hand": 40},
        ("filter",),
        _REPLICATED,
        lags=("cuts in", "cuts out", "cuts out", "assignments in"),
        strikes=("cuts dies", "cuts stalls", "cuts stalls", "delivered stalls"),
        raises=True,
        versions=True,
    ),
    "policies": Profile({"strike": 2, "lag": 2}, ("totals", "windows", "join", "filter"), policies=_POLICIES),
    "policy-changes": Profile(
        {"policy": 40, "policy-again": 20, "command": 20, "lag": 2, "crash": 0.5},
        ("totals", "windows", "join"),
        policies=("sweep", *_POLICIES),
        controllers=2,
    ),
    "rollbacks": Profile(
        {"rollback": 30, "policy": 3, "stale": 4, "strike": 4, "lag": 4, "crash": 0.5},
        ("totals", "windows", "join"),
        strikes=("checkpoints dies", "checkpoints stalls", "checkpoints again", "assignments dies", "data dies"),
        lags=("assignments in", "checkpoints in", "checkpoints out", "progress in", "data out"),
        policies=("aligned",),
        controllers=2,
        trims=True,
    ),
    "incidents": Profile(
        {
            "felled": 60,
            "rollback": 2,
            "policy": 1,
            "stale": 3,
            "strike": 3,
            "lag": 3,
            "crash": 1,
            "outage": 2,
            "leaderless": 4,
        },
        ("totals", "windows", "join", "filter"),
        ("none", "passive", "passive", "passive-hot"),
        fresh=0.1,
        strikes=("checkpoints dies", "assignments dies", "data dies", "checkpoints stalls"),
        lags=("assignments in", "checkpoints in", "progress in", "data out"),
        policies=("aligned", "aligned", "aligned", "sweep"),
        slots=2,
        controllers=2,
        replicas=2,
        trims=True,
        incidents=True,
    ),
    "spark-incidents": Profile(
        {"felled": 60, "stale": 3, "strike": 3, "lag": 3, "crash": 1, "leaderless": 4},
        ("totals", "windows", "filter"),
        ("none", "passive"),
        fresh=0.1,
        lags=("assignments in", "progress in"),
        slots=2,
        replicas=2,
        incidents=True,
        spark=True,
    ),
    "spark-leaves": Profile(
        {"leave": 40, "strike": 3, "crash": 1, "stall": 1},
        ("filter", "select", "totals", "windows"),
        ("none", "passive", "hybrid", "hybrid"),
        strikes=("heavy dies", "heavy stalls", "heavy again"),
        spark=True,
    ),
    "retention": Profile(
        {
            "felled": 30,
            "felled-at-the-end": 12,
            "rollback": 20,
            "policy": 1,
            "stale": 2,
            "strike": 6,
            "lag": 12,
            "crash": 2,
            "stall": 2,
            "cut": 1,
            "move": 4,
        },
        ("totals", "windows", "join", "filter"),
        ("none", "passive", "passive", "passive-hot", "hybrid"),
        fresh=0.1,
        strikes=("checkpoints dies", "assignments dies", "data dies", "checkpoints stalls", "progress stalls"),
        lags=("assignments in", "assignments in", "checkpoints in", "progress in", "data out", "data in"),
        policies=("aligned",),
        slots=4,
        controllers=2,
        replicas=2,
        trims=True,
        incidents=True,
        retains=("adaptive", "source", "source"),
    ),
    "aligned": Profile({"lag": 4}, ("totals", "windows"), policies=("aligned",)),
    "idle-captures": Profile(
        {"lag": 2},
        ("totals", "windows", "join"),
        ("passive-hot", "hybrid", "passive-cold", "none"),
        policies=("idle-minmax", "idle-roundrobin"),
    ),
    "idle-silence": Profile(
        {"lost-heartbeats": 6, "late-heartbeats": 4, "stall": 4, "lag": 4, "crash": 0.5},
        ("totals", "windows", "join"),
        ("passive-hot", "hybrid"),
        policies=("idle-minmax", "idle-roundrobin"),
    ),
    "merged": Profile(
        {"lag": 2}, ("totals", "windows", "join"), ("passive-hot", "hybrid", "passive-cold"), policies=("idle-minmax",)
    ),
    "bounded": Profile({"lag": 4, "stall": 4, "crash": 2}, ("filter", "totals", "windows"), bounded=True),
    "asks": Profile({"crash": 3, "lag": 3, "strike": 3, "stall": 2, "lost-heartbeats": 2}, asks=True),
    "clocked": Profile({"clock": 4, "crash": 2, "lag": 2}, clocked=True),
    "replacing": Profile(
        {"crash": 4, "stall": 2, "lag": 4, "strike": 2},
        ("pace", "ranked", "sql", "filter"),
        ("passive", "passive-hot", "hybrid", "active-replication", "active-standby"),
    ),
    "paced": Profile(
        {"strike": 4, "lag": 6, "stall": 2, "usurped": 3, "lost-heartbeats": 2, "crash": 4},
        ("filter", "totals", "windows"),
        ("active-replication", "active-standby", "hybrid"),
        strikes=("cuts dies", "cuts dies", "cuts stalls", "data dies"),
        lags=("source in", "cuts in", "cuts out", "data in", "assignments in"),
        paced=True,
    ),
    "paced-losses": Profile(
        {"retention": 40, "lag": 6, "stall": 2, "crash": 4, "command": 0, "resubmit": 0},
        ("filter", "totals", "windows"),
        ("active-replication", "active-standby", "hybrid"),
        lags=("source in", "cuts in", "cuts out", "data in", "assignments in"),
        continues=True,
        paced=True,
    ),
    "stretched": Profile(
        {"strike": 2, "lag": 8, "stall": 4, "usurped": 1, "lost-heartbeats": 2, "crash": 4},
        ("filter", "totals", "windows"),
        ("active-replication", "active-standby", "hybrid"),
        strikes=("cuts dies", "cuts stalls", "data dies"),
        lags=("source in", "cuts in", "cuts out", "data in", "data out"),
        stretched=True,
    ),
    "timed": Profile({"lag": 2}, ("totals", "windows", "join"), policies=("synchronous", "individual")),
    "whole-worker": Profile({"lag": 2}, ("totals", "windows", "join"), policies=("whole-worker",)),
    "spark-rows": Profile(
        {"strike": 12, "crash": 2, "stall": 2, "lag": 4},
        ("filter", "select", "totals", "windows"),
        strikes=("heavy dies", "heavy dies", "heavy stalls", "heavy deaf", "heavy cut", "heavy again"),
        lags=("cuts in", "cuts in"),
        spark=True,
        behind=True,
        trims=True,
    ),
    "spark-inputs": Profile(
        {"strike": 12, "crash": 4, "stall": 2, "lag": 4},
        ("filter", "totals", "windows"),
        strikes=("heavy dies", "heavy dies", "heavy stalls", "heavy deaf", "heavy cut", "heavy again"),
        lags=("cuts in", "cuts in"),
        spark=True,
        behind=True,
        inputs=True,
        trims=True,
    ),
    "spark-aligned": Profile(
        {"rollback": 20, "policy": 2, "strike": 10, "stale": 2, "lag": 4, "crash": 1},
        ("filter", "totals", "windows"),
        strikes=("heavy dies", "heavy stalls", "heavy again", "checkpoints dies", "assignments dies", "cuts dies"),
        lags=("assignments in", "checkpoints in", "progress in", "cuts in"),
        policies=("aligned",),
        controllers=2,
        trims=True,
        spark=True,
        behind=True,
    ),
    "adaptive": Profile(
        {"crash": 1, "stall": 1, "lost-heartbeats": 3, "strike": 1, "lag": 1, "move": 2, "command": 2, "drill": 2},
        ("totals", "windows", "filter"),
        ("adaptive",),
        pause_ms=300,
        adaptive=True,
        replicas=2,
    ),
    "gaps": Profile(
        {"strike": 8, "lag": 4, "stall": 2, "crash": 3, "command": 0.5},
        ("totals", "windows", "join"),
        ("passive", "passive-cold", "passive-hot", "hybrid", "active-standby"),
        strikes=(
            "checkpoints dies",
            "checkpoints dies",
            "checkpoints stalls",
            "checkpoints again",
            "cuts dies",
            "cuts again",
        ),
        lags=("checkpoints in", "checkpoints out", "cuts in", "cuts out", "progress in"),
        gaps=True,
    ),
    "budget": Profile(
        {"felled": 6, "crash": 1, "stall": 1, "lag": 2, "strike": 2, "leave": 1, "move": 1, "outage": 1},
        ("totals", "windows", "join", "filter"),
        ("passive", "passive", "passive-cold", "passive-hot", "hybrid"),
        fresh=0.1,
        strikes=("assignments dies", "assignments stalls", "checkpoints dies", "data dies"),
        lags=("assignments in", "assignments in", "progress in", "data out"),
        pause_ms=800,
        slots=12,
        replicas=2,
        incidents=True,
        budget=True,
    ),
    "outages": Profile(
        {"felled": 30, "crash": 4, "stall": 1, "lag": 3, "strike": 3, "leave": 1, "stale": 3, "cut": 1},
        ("windows", "windows", "windows", "totals", "join", "filter"),
        ("none", "passive", "passive", "passive-hot", "active-standby"),
        fresh=0.1,
        strikes=("assignments dies", "assignments stalls", "checkpoints dies", "data dies"),
        lags=("assignments in", "assignments in", "assignments out", "progress in", "data out"),
        pause_ms=500,
        slots=2,
        replicas=2,
        incidents=True,
        tentative=True,
    ),
    "forks": Profile(
        {"away": 40, "fork-dies": 15, "strike": 3, "lag": 3, "stale": 2, "outage": 1, "rollback": 1, "cut": 0.3}
        | dict.fromkeys(("crash", "crash-at", "stall", "command", "resubmit", "clock"), 0),
        schemes=("none", "passive"),
        strikes=("delivered dies", "delivered stalls", "assignments dies", "checkpoints dies", "data dies"),
        lags=("assignments in", "assignments in", "data in", "data out", "progress in"),
        pause_ms=600,
        replicas=2,
        tentative=True,
        fork=True,
    ),
    "standby-forks": Profile(
        {"away": 40, "command": 20, "lag": 2} | dict.fromkeys(("crash", "crash-at", "stall", "resubmit", "clock"), 0),
        pause_ms=500,
        replicas=2,
        tentative=True,
        fork=True,
        slots=12,
    ),
    "stale-outages": Profile(
        {"stale-outage": 30, "felled": 10, "crash": 10, "leave": 3, "lag": 3},
        schemes=("none", "passive"),
        lags=("assignments in", "assignments in", "assignments out"),
        pause_ms=500,
        replicas=2,
        tentative=True,
    ),
    "deadly-lines": Profile(
        {"deadly-line": 15, "away": 40} | dict.fromkeys(("crash", "crash-at", "stall", "command", "resubmit"), 0),
        schemes=("none", "passive"),
        pause_ms=600,
        tentative=True,
        fork=True,
    ),
    "memories": Profile(
        {"strike": 4, "lag": 4, "crash": 2},
        ("items", "as-of", "as-of", "forgotten", "forgotten", "filter"),
        strikes=("checkpoints dies", "checkpoints again", "cuts dies", "data dies"),
        fresh=0.5,
        metadata=True,
        idle_after_s=0.5,
    ),
    "updates": Profile(
        {"strike": 3, "lag": 2, "stall": 0.5} | dict.fromkeys(("command", "resubmit"), 0),
        ("filter", "totals", "windows"),
        strikes=("plans dies", "assignments dies", "checkpoints dies", "checkpoints again", "cuts dies", "data dies"),
        lags=("plans in", "assignments in", "checkpoints in", "checkpoints out", "cuts in"),
        pause_ms=1_000,
        slots=24,
        updates=True,
    ),
    "strangers": Profile({"stranger": 30, "crash": 2}),
    "half-pasted": Profile({"half-pasted": 20, "crash": 0.2}, ("totals", "windows"), ("passive-hot", "hybrid")),
    "spark-files": Profile(
        dict.fromkeys(_ANYTHING, 0) | {"strike": 60, "crash": 2},
        ("filter", "select", "totals", "windows"),
        ("hybrid", "passive-hot"),
        strikes=("heavy dies", "heavy dies", "heavy dies", "heavy cut", "heavy stalls"),
        spark=True,
        query_files=True,
    ),
}
