"""Z6 on real workers: the elements that a job sends, by rate and scheme, while nothing fails.

Elements are counted, so it does not matter how fast the machine is. How they are counted: bench/measures/overhead.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.measures.overhead import WORKERS, Load, Variant, elements, settled
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_most, linear, ratio_of_means, within
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, folder_of_its_own
from bench.rig.saying import say

RATES_PER_S, KEYS, SECONDS = (1_000, 4_000, 10_000), 20, 5.0
NONE, PASSIVE, HYBRID, HELD, ACTIVE = "none", "passive", "hybrid", "hybrid-held", "active"
VARIANTS = {
    NONE: Variant("none", 1),
    PASSIVE: Variant("passive-cold", 1),
    HYBRID: Variant("hybrid", 1, "paused"),
    HELD: Variant("hybrid", 2),
    ACTIVE: Variant("active-replication", 2),
}
"""`hybrid` as in the paper, whose secondary is sent nothing; `hybrid-held` is the default here."""


def _key(variant: str, rate_per_s: int) -> str:
    return f"{variant} {rate_per_s}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    with folder_of_its_own(say) as cluster:
        cluster.start(WORKERS)
        for key in keys:
            variant, rate = key.split()
            keep(key, _sent(cluster, f"elements-{variant}-{rate}", VARIANTS[variant], Load(int(rate), KEYS)))


def _sent(cluster: BenchCluster, name: str, variant: Variant, load: Load) -> Values:
    """Rows that copies send to copies, and entries of checkpoints, in a second of that rate."""
    with settled(cluster, jobs.PASSING, name, variant, load) as (job, topic):
        found = elements(cluster, job, topic, variant, SECONDS, load)
    rows, entries = found["rows_sent"] * load.rate_per_s, found["checkpoint_entries"] * load.rate_per_s
    return {"rows_per_s": rows, "checkpoint_entries_per_s": entries}


def _line(data: Data, variant: str) -> Series:
    """Series of a variant, in thousands."""
    points = [(float(rate), data[_key(variant, rate)]) for rate in RATES_PER_S]
    entries = 0 if variant == NONE else 1
    return Series(
        variant, tuple((x, (one["rows_per_s"] + entries * one["checkpoint_entries_per_s"]) / 1000) for x, one in points)
    )


def _plots(data: Data) -> list[Plot]:
    lines = tuple(_line(data, variant) for variant in VARIANTS)
    return [Plot("elements sent", "rate of the source, records/s", "rows and checkpoint entries, 1,000/s", lines)]


def _checks(data: Data) -> list[Check]:
    lines = {variant: _line(data, variant) for variant in VARIANTS}

    def over_none(variant: str) -> float:
        return ratio_of_means([y for _, y in lines[variant].points], [y for _, y in lines[NONE].points])

    def adds(variant: str) -> float:
        return (over_none(variant) - 1) / (over_none(ACTIVE) - 1)

    return [
        *(linear(lines[variant], 0.95) for variant in (NONE, PASSIVE, HYBRID, ACTIVE)),
        at_most("passive over none (the paper: about 1.1)", over_none(PASSIVE), 1.25, shape=True),
        at_most("hybrid over none (the paper: about 1.1)", over_none(HYBRID), 1.25, shape=True),
        within("active over none (the paper: about 4)", over_none(ACTIVE), 3.0, 5.0),
        at_most("what hybrid adds over what active adds (the paper: about .2)", adds(HYBRID), 0.2),
        at_most("the same of a secondary that holds its inputs", adds(HELD), 0.5),
    ]


Z6 = Figure(
    tag="Z6",
    title="elements sent, by rate and scheme",
    paper="Zhang et al. 2010, figure 6",
    expected="active standby, where both copies send to both copies of the next unit, sends about four times what none "
    "does; passive and hybrid about 10 % more than none, for checkpoints. Hybrid adds about 80 % less than active "
    "standby.",
    setup=f"a chain of four units on {WORKERS} workers, two of which pass every row on; the last counts by {KEYS} "
    "keys. Rows in the logs between the units count once for each copy that takes them in, entries of checkpoints "
    f"once; over {SECONDS:g} s, while nothing fails. `active` is `active-replication`; `hybrid-held` has a secondary "
    "that holds its inputs.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(variant, rate) for variant in VARIANTS for rate in RATES_PER_S),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=300,
    differs="Here units are checkpointed under `none`, too, for restarts; the paper's are not, so these entries do not "
    "count.",
)
