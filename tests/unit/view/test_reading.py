"""Names of jobs and units as commands find them, and the reasons by which they are refused."""

from __future__ import annotations

import pytest

from holdfast.schemas import plans
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Ended, Plan, UnitPlan
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.view.cluster import ClusterView
from holdfast.services.view.reader import named_job, running_job, running_unit

TOPICS = ClusterTopics("t")
PLAN = Plan(
    job="flights",
    generation="1-aaaaaa",
    id=Id("controller", 1),
    spec={},
    operators=(),
    edges=(),
    units=(UnitPlan("late-0", 0, (), 0), UnitPlan("late-1", 1, (), 1)),
    sources=(),
    sink_partitions={},
    interval_ms=10,
    versions={},
    warnings=(),
)


@pytest.fixture
def view() -> ClusterView:
    made = ClusterView(TOPICS)
    made.read(TOPICS.plans, plans.encode(PLAN))
    return made


def test_a_job_that_runs_and_its_units_are_found(view: ClusterView) -> None:
    job = named_job(view, "flights")
    assert running_job(view, "flights") == job
    assert running_unit(view, "flights", "late-1") == job


def test_an_unknown_unit_is_refused_with_the_names_of_the_others(view: ClusterView) -> None:
    with pytest.raises(CommandFailed, match="job flights has no unit 'late': one of late-0, late-1"):
        running_unit(view, "flights", "late")


def test_a_job_that_is_over_is_found_and_takes_no_commands(view: ClusterView) -> None:
    view.read(TOPICS.plans, plans.encode(Ended("flights", "1-aaaaaa", Id("controller", 2), PLAN.id, "drained")))
    assert named_job(view, "flights").state == "ended"
    over = "job flights is ended: it has no units"
    with pytest.raises(CommandFailed, match=over):
        running_job(view, "flights")
    with pytest.raises(CommandFailed, match=over):
        running_unit(view, "flights", "late-0")
