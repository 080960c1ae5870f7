"""The checkers: what must hold of a history, found in everything that was ever written (PROTOCOL 14).

They look at the broker's whole trace after the run, so they see also what was trimmed meanwhile, and they fold it
themselves: what a worker believed does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from unittest import mock

from holdfast.schemas import assignments, checkpoints, cuts, heartbeats
from tests.simulation.checks import (
    adapting,
    bounded,
    commits,
    gaps,
    health,
    incidents,
    outages,
    raises,
    roots,
    standbys,
    switches,
    updates,
    upgrades,
)
from tests.simulation.checks.assigned import balance, moves, named_copies, snapshots, takeovers, transitions
from tests.simulation.checks.checkpointed import CheckpointCheck, image_states
from tests.simulation.checks.crashes import quarantines, suspects
from tests.simulation.checks.ends import asked_to_end, nothing_runs_on
from tests.simulation.checks.generation import generations_of
from tests.simulation.checks.replayed import same_as_replayed
from tests.simulation.checks.sent import rising_positions, same_frames
from tests.simulation.checks.taken_in import asked_to_read_again, every_record_is_cut, nobody_gives_way_unled
from tests.simulation.kafka.names import profile_of
from tests.simulation.observers import formats
from tests.simulation.processes import budgets
from tests.simulation.processes.cluster import Cluster
from tests.simulation.profiles import PROFILES


@contextmanager
def decoded_once() -> Iterator[None]:
    """The checkers read the same records, one after the other."""
    with ExitStack() as stack:
        for module in (assignments, checkpoints, cuts, heartbeats):
            stack.enter_context(mock.patch.object(module, "decode", lru_cache(maxsize=None)(module.decode)))
        yield


@decoded_once()
def check(cluster: Cluster) -> list[str]:
    """Everything that does not hold, in words."""
    generations = generations_of(cluster.broker.written)
    cluster.broker.untrim()
    found: list[str] = [*cluster.images.wrong, *cluster.captures.wrong, *cluster.broker.greedy, *cluster.notes.wrong]
    found += cluster.captures.unconfirmed(cluster.broker.written)
    found += cluster.planned[:10]
    for checker in (
        transitions,
        nothing_runs_on,
        quarantines,
        suspects,
        upgrades.check,
        formats.check,
        moves,
        balance,
        named_copies,
        same_frames,
        rising_positions,
        asked_to_end,
    ):
        found += checker(cluster.broker.written)
    found += snapshots(cluster)
    found += roots.check(cluster)
    found += takeovers(cluster, generations)
    every = {one.plan.generation: CheckpointCheck(cluster, one) for one in generations}
    carried = {one.plan.generation: [*every[one.plan.generation].run()] for one in generations}
    found += updates.check(
        cluster.broker.written,
        {name: (one.plan, one.topics, every[name].states) for one in generations for name in [one.plan.generation]},
    )
    for generation in generations:
        found += carried[generation.plan.generation]
        if not updates.led(generation.plan):
            continue
        checkpointed = every[generation.plan.generation]
        found += image_states(cluster, generation, checkpointed.states)
        found += commits.check(cluster.broker, generation.plan, generation.topics, generation.ended)
        found += every_record_is_cut(cluster, generation)
        found += nobody_gives_way_unled(cluster, generation)
        found += asked_to_read_again(cluster, generation)
        found += raises.check(cluster, generation.plan, generation.topics)
        found += standbys.check(cluster.broker.written, generation.plan, generation.topics, cluster.healed_us)
        found += bounded.check(cluster.broker.written, generation.plan, generation.topics, generation.reading)
        found += gaps.check(cluster.broker.written, generation.plan, generation.topics, generation.ended == "drained")
        found += incidents.check(cluster.broker.written, generation.plan)
        found += outages.check(cluster.broker.written, generation.plan)
        found += outages.check_rows(cluster.broker, generation.plan, drained=generation.ended == "drained")
        found += switches.check(cluster.broker.written, generation.plan)
        if PROFILES[profile_of(cluster.seed)].adaptive:
            found += adapting.check(cluster.broker.written, generation.plan)
            found += adapting.obeyed(cluster.broker.written, generation.plan, cluster.healed_us)
        found += budgets.check(cluster.broker.written, generation.plan)
        if profile_of(cluster.seed) == "unplaced":
            found += health.check(cluster.broker.written, generation.plan, generation.topics)
        found += same_as_replayed(cluster, generation, checkpointed.states)
    return found
