"""Scenario of a history: a cluster, a job, its records and faults. All of it is drawn from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulation.checks.adapting import asked_to_adapt, draw_promise
from tests.simulation.checks.bounded import MIB
from tests.simulation.checks.incidents import draw_incidents
from tests.simulation.checks.outages import draw_fork, draw_results
from tests.simulation.faults.drawing import draw_faults
from tests.simulation.faults.fault import Fault, Roles
from tests.simulation.processes.budgets import draw_budget, draw_surges
from tests.simulation.processes.feeds import Feed, draw_feed
from tests.simulation.processes.jobs import DrawnJob, draw_checkpoints, draw_job
from tests.simulation.processes.updating import Change, draw_changes
from tests.simulation.profiles import PROFILES, Profile

FIRST_FAULT_MS = 300
DRIVERS = ("d0", "d1")
PATIENT_S = 60.0
REBALANCE_S = 0.5
"""Period where units move for balance, or their standbys: the same one again so soon, which shows whether it moves to
and
fro.
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """workers: name and zone. drivers: of Spark. run_ms: until then faults come, afterwards all is well.

    calm_ms: as a Profile has it.
    """

    seed: str
    job: DrawnJob
    workers: dict[str, str]
    replicas: int
    controllers: int
    feed: tuple[Feed, ...]
    faults: tuple[Fault, ...]
    run_ms: int
    calm_ms: int | None = None
    drivers: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


def _workers(random: Random, profile: Profile) -> int:
    """Number of workers; a standby moves only where there is a third, and a fork needs workers that are left."""
    drawn = random.choice((2, 3, 3, 4))
    return drawn + 1 if profile.reassigns or profile.fork else drawn


def draw(seed: int, run_ms: int | None = None, profile: str = "") -> Scenario:
    """The scenario of a seed, under a profile."""
    drawn_under = PROFILES[profile]
    seed_ = f"{seed}{profile and f'-{profile}'}"
    random = Random(f"{seed_}/scenario")
    aside = Random(f"{seed_}/dedup")
    job = draw_fork(random, aside) if drawn_under.fork else draw_job(random, aside, drawn_under)
    if drawn_under.calm_ms is not None or drawn_under.reassigns:
        job.spec["fault_tolerance"]["rebalance_period_s"] = REBALANCE_S
    if drawn_under.continues:
        for source in job.spec["sources"].values():
            source["on_data_loss"] = "continue"
    if drawn_under.trims:
        job.spec.update(keep_cuts=False, replay_horizon_s=Random(f"{seed_}/horizon").choice((0, 0, 0.1, 1)))
    if drawn_under.paced:
        job.spec["latency_ms"] = Random(f"{seed_}/latency").choice((50, 100, 200, 400))
    if drawn_under.stretched:
        del job.spec["batch_interval_ms"]
    if drawn_under.bounded:
        job.spec["retain_bytes"] = MIB
    if drawn_under.policies:
        job.spec["fault_tolerance"]["checkpoint"] = draw_checkpoints(
            Random(f"{seed_}/policy"), job.spec["fault_tolerance"], drawn_under.policies
        )
    if drawn_under.incidents:
        job.spec["fault_tolerance"] |= draw_incidents(Random(f"{seed_}/incidents"), drawn_under.retains)
    if drawn_under.patient:
        job.spec["fault_tolerance"]["correlated_failure"] = {"workers": 1_000}
    if drawn_under.standbys or drawn_under.incidents:
        important = Random(f"{seed_}/priorities")
        for query in job.spec["queries"].values():
            query["priority"] = important.randint(1, 3)
    if drawn_under.adaptive:
        job.spec["fault_tolerance"] |= draw_promise(Random(f"{seed_}/promise"))
    if drawn_under.budget:
        draw_budget(Random(f"{seed_}/budget"), job)
    if drawn_under.tentative and not drawn_under.fork:
        draw_results(Random(f"{seed_}/results"), job)
    if drawn_under.gaps:
        job.spec["fault_tolerance"]["precision"] = "gap"
    if drawn_under.patient:
        job.spec["fault_tolerance"]["fail_stop_timeout_s"] = PATIENT_S
    workers = {f"w{number}": random.choice(("", "a", "b")) for number in range(_workers(random, drawn_under))}
    replicas, controllers = random.choice((1, 1, 2)), max(random.choice((1, 1, 2)), drawn_under.controllers)
    replicas = max(replicas, drawn_under.replicas)
    length_ms = run_ms or random.choice((6_000, 10_000, 15_000, 25_000))
    drivers = DRIVERS if drawn_under.spark else ()
    roles = Roles(
        (*workers, *drivers, *drivers, *drivers),  # most faults are to meet drivers
        tuple(f"recovery-{number}" for number in range(replicas)),
        tuple(f"controller-{number}" for number in range(controllers)),
        tuple(unit for unit in job.units if not unit.startswith("spark-")),
        tuple(sorted({source["topic"] for source in job.spec["sources"].values() if "table" not in source})),
        tuple(topic for topic in job.topics if topic.startswith("out-")),
    )
    feed = draw_feed(Random(f"{seed_}/feed"), job, length_ms)
    if drawn_under.budget:
        feed += draw_surges(Random(f"{seed_}/surges"), job, length_ms)
    faults = draw_faults(Random(f"{seed_}/faults"), roles, FIRST_FAULT_MS, length_ms, drawn_under)
    if drawn_under.adaptive:
        faults = asked_to_adapt(Random(f"{seed_}/adaptive"), faults)
    return Scenario(
        seed_,
        job,
        workers,
        replicas,
        controllers,
        tuple(feed),
        tuple(faults),
        length_ms,
        drawn_under.calm_ms,
        drivers,
        tuple(draw_changes(Random(f"{seed_}/changes"), length_ms) if drawn_under.updates else ()),
    )
