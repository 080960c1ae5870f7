"""Lives of a copy and of its checkpoint runs, each as a file that a person reads."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import PRIMARY, Flags
from holdfast.services.worker.core import checkpoint_run as runs
from holdfast.services.worker.core import lifecycle as life
from tests.support.golden import golden

HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
UP = (life.Placed(1, PRIMARY), life.Deployed(), life.Restored(7), life.Opened())

COPIES: dict[str, tuple[life.Event, ...]] = {
    "leader-to-its-end": (*UP, life.Unplaced()),
    "standby-takes-over": (
        life.Placed(1, HOT),
        life.Deployed(),
        life.Restored(7),
        life.Placed(2, PRIMARY),
        life.Opened(),
    ),
    "former-leader-is-fenced": (*UP, life.OutputFenced(), life.Placed(2, HOT), life.CommitsNoMore()),
    "commit-without-an-answer": (*UP, life.OutputIndefinite(), life.Opened()),
    "inputs-are-lost": (*UP, life.InputBroken("a gap"), life.StillCommits(), life.Restored(9), life.Opened()),
    "code-raises": (*UP, life.Broke("division of a string")),
}
RUNS: dict[str, tuple[runs.Event, ...]] = {
    "checkpoint-run": (
        runs.Due(5),
        runs.Encoded(),
        runs.Flushed(4),
        runs.Flushed(5),
        runs.MarkerRead(valid=True),
        runs.Settled(),
    ),
    "checkpoint-of-another-copy-came-first": (
        runs.Due(5),
        runs.Encoded(),
        runs.Flushed(5),
        runs.MarkerRead(valid=False),
    ),
    "checkpoint-is-abandoned": (runs.Due(5), runs.Encoded(), runs.Abandoned()),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_lives_as_its_story_says(name: str) -> None:
    core = life.Lifecycle("count-0")
    for event in COPIES[name]:
        core.handle(event)
    assert core.story == golden(__file__, name)


@pytest.mark.parametrize("name", RUNS)
def test_a_checkpoint_run_goes_as_its_story_says(name: str) -> None:
    core = runs.CheckpointRun()
    for event in RUNS[name]:
        core.handle(event)
    assert core.story == golden(__file__, name)
