"""Cost of the seal on every record of a cluster's own topics: the same job with and without a secret, in turn."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping

from bench.measures.throughput import Throughput
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast.services.log.seal.secret import OFF, SECRET, SECRET_FILE

SECRETS: Mapping[str, str] = {"plain": OFF, "sealed": "a secret of this measurement"}
RUN = Throughput(jobs.COUNT, keys=1_000, partitions=4)
"""All records go from four sources to four tasks, in frames."""


def seal(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Medians over rounds, each with a cluster of its own; and their ratios, of the rounds."""
    chance, rounds = random.Random(), list[dict[str, Figures]]()
    for number in range(scale.rounds):
        found: dict[str, Figures] = {}
        for kind in chance.sample(list(SECRETS), len(SECRETS)):
            one = BenchCluster(cluster.folder / f"{kind}-{number}", cluster.say)
            one.start(1, {SECRET: SECRETS[kind], SECRET_FILE: ""})
            try:
                found[kind] = RUN(one, f"{name}-{kind}{number}", scale)
            finally:
                one.stop()
            cluster.say(f"  {kind}: {', '.join(f'{figure} {value:,}' for figure, value in found[kind].items())}")
        rounds.append(found)
    return compared(rounds)


def compared(rounds: list[dict[str, Figures]]) -> Figures:
    """Figures by kind, and the ratio of sealed to plain."""
    figures: Figures = {}
    for figure in rounds[0]["plain"]:
        for kind in SECRETS:
            figures[f"{kind}_{figure}"] = statistics.median(one[kind][figure] for one in rounds)
        ratio = statistics.median(one["sealed"][figure] / one["plain"][figure] for one in rounds)
        figures[f"{figure}_sealed_over_plain"] = round(ratio, 3)
    return figures
