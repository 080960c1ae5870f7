"""Limits so small that short histories reach them: runs of many parts, frames in parts, sweeps of many slices.

They change how much is done at once, and nothing of what is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest import mock

from holdfast.services.controller import conductor
from holdfast.services.controller.core import goals
from holdfast.services.decisions import cut_snapshots, jobs, snapshots
from holdfast.services.kernel.dataflow import input_partition, line
from holdfast.services.kernel.protection import merged_captures as entries
from holdfast.services.kernel.state import keyed as state
from holdfast.services.planning import plan
from holdfast.services.recovery.core.replication import measured, replanning
from holdfast.services.worker.checkpoint import applier, parts, unit_image
from holdfast.services.worker.checkpoint.policies import idle_minmax
from holdfast.services.worker.core import cut_rhythm, cut_trims, pace
from holdfast.services.worker.sinks import portions, row_queue, tentative_rows
from holdfast.services.worker.sources import cut_trimmer
from holdfast.services.worker.unit import input_choice
from holdfast.services.worker.unit.checkpoints import trimmer
from holdfast.services.worker.unit.inputs import intake
from holdfast.services.worker.unit.outputs import outputs
from tests.simulation.checks.bounded import small_bounds
from tests.simulation.kafka.names import profile_of

AIMED: Mapping[str, tuple[tuple[Any, str, tuple[float, ...]], ...]] = {
    "unplaced": ((input_partition, "MAX_AHEAD_BATCHES", (4, 4, 30, 4_096)),),
    "forks": (
        (input_partition, "MAX_AHEAD_BATCHES", (4, 10, 4_096)),
        (line, "MAX_AHEAD", (3, 8, 64)),
        (tentative_rows, "MAX_WAITING", (1, 3, 16)),
        (tentative_rows, "MAX_OPEN", (10, 100_000)),
    ),
    "budget": (
        (replanning, "PACE_US", (100_000, 300_000)),
        (replanning, "COOL_DOWN_US", (1_000_000, 3_000_000)),
        (replanning, "LOOKS", (1, 2)),
        (measured, "WINDOW_US", (1_000_000, 2_000_000)),
        (measured, "LEAST_US", (300_000, 600_000)),
        (measured, "APART_US", (100_000,)),
    ),
    "stretched": (
        (plan, "LEAST_INTERVAL_MS", (20, 50, 100)),
        (pace, "ROOM_MS", (1.0, 20.0, 60.0)),
        (pace, "WAITS_MS", (1.0, 100.0)),
        (pace, "SELDOM_MS", (25.0, 60.0)),
        (pace, "OFTEN_MS", (10.0, 25.0)),
        (pace, "GAPS", (1, 2, 4)),
        (pace, "REST_MS", (100.0, 500.0)),
    ),
    "merged": ((entries, "ALIKE", (2.0, 100.0, 1e6)), (idle_minmax, "LEAST_MS", (0.01, 1.0))),
}
"""Under a profile."""
LOOK_MS = 2.0
"""Time between two looks of a source that is far ahead: where three batches are that already, they are done soon."""


@contextmanager
def drawn_limits(seed: str) -> Iterator[None]:
    """While it is open the limits are those of the seed."""
    random = Random(f"{seed}/limits")
    drawn = (
        (parts, "PIECE_ENTRIES", (1, 3, 10, 250)),
        (parts, "PART_ENTRIES", (2, 5, 20, 2_000)),
        (parts, "SWEEP_BYTES", (50, 200, 1_000, 64 * 1024)),
        (applier, "JUMP_BATCHES", (0, 2, 8, 256)),
        (outputs, "MAX_FRAME_BYTES", (600, 1_000, 4_000, 1024 * 1024)),
        (intake, "MAX_INPUT_BYTES", (500, 4_000, 64 * 1024 * 1024)),
        (outputs, "MAX_UNACKNOWLEDGED_BATCHES", (2, 8, 64)),
        (row_queue, "MAX_WAITING_BATCHES", (2, 8, 64)),
        (portions, "MAX_BATCHES_A_TRANSACTION", (1, 2, 16)),
        (cut_rhythm, "MAX_LEAD_BATCHES", (3, 10, 64)),
        (trimmer, "OUTPUT_MS", (50, 200, 500)),
        (trimmer, "ANCHOR_MS", (100, 500, 2_000)),
        (state, "MAX_CACHED_VALUES", (2, 10, 4_000_000)),
        (parts, "PIECE_BYTES", (1, 30, 16 * 1024)),
        (parts, "PART_BYTES", (50, 500, 512 * 1024)),
        (unit_image, "SETTLED_ENTRIES", (1, 3, 1_000)),
        (intake, "SUSPENDED_INPUT_BYTES", (300, 4_000, 1024 * 1024)),
        (input_choice, "RETURN_MS", (100, 1_000, 10_000)),
        (cut_rhythm, "MAX_LEAD_BYTES", (300, 3_000, 32 * 1024 * 1024)),
        (cut_trims, "FEWEST_RECORDS", (1, 5, 20)),
        (cut_trims, "RECORDS_A_TASK", (0, 2)),
        (cut_trims, "SHORTEST_MS", (20, 100, 500)),
        (cut_trimmer, "LOOK_MS", (20, 100, 500)),
        (cut_snapshots, "KEPT_CUTS", (3, 20, 1_024)),
        (cut_snapshots, "MOST_KNOWN", (2, 5, 32)),
        (snapshots, "TRIM_EVERY_US", (20_000, 200_000, 2_000_000)),
        (goals, "RETIRE_AT", (1, 2)),
        (goals, "RETIRE_MS", (50, 500)),
        (jobs, "KEPT_OVER", (0, 1, 50)),
        (conductor, "ROOT_MS", (20, 200)),
    )
    with ExitStack() as stack:
        for module, name, values in (*drawn, *AIMED.get(profile_of(seed), ())):
            stack.enter_context(mock.patch.object(module, name, random.choice(values)))
        stack.enter_context(mock.patch.object(cut_rhythm, "LOOK_MS", LOOK_MS))
        stack.enter_context(small_bounds())
        yield
