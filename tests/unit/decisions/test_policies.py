"""Which checkpoint policy a job follows, whatever anybody appends."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Assignment, CheckpointPolicy
from holdfast.schemas.decided import Id
from holdfast.schemas.job_settings import CheckpointSettings
from holdfast.schemas.plans import Plan
from holdfast.schemas.retired import Retired
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.policies import READ, in_force, planned

G = "4-abcdef"
FIRST = CheckpointPolicy("job", G, 7, "aligned", 500, 100, 10_000, 5, since=7)


def plan(**checkpoint: object) -> Plan:
    return Plan("job", G, Id("c", 1), {"fault_tolerance": {"checkpoint": checkpoint}}, (), (), (), (), {}, 10, {})


def follows(*policies: CheckpointPolicy, retired: Retired | None = None) -> CheckpointPolicy:
    assigned = Assigned()
    for policy in policies:
        assigned.read(Assignment("a", 0, (), policies=(policy,)))
    if retired is not None:
        assigned.read(Assignment("a", 0, (), retired=retired))
    return in_force(plan(policy="individual", interval_ms=70), assigned)


def test_a_job_follows_its_plan_until_a_command_is_answered() -> None:
    assert follows() == planned(plan(policy="individual", interval_ms=70))
    assert (follows().policy, follows().interval_ms, follows().every_batches) == ("individual", 70, 10)
    assert follows(FIRST) == FIRST


def test_the_answer_to_the_last_command_counts_whoever_appends_an_older_one_again() -> None:
    later = replace(FIRST, asked=9, policy="sweep")
    assert follows(FIRST, later) == follows(FIRST, later, FIRST) == follows(later, FIRST) == later


def test_the_first_of_two_answers_to_a_command_counts() -> None:
    assert follows(FIRST, replace(FIRST, policy="sweep")) == FIRST


@pytest.mark.parametrize("asked", [3, 4])
def test_nothing_that_was_asked_before_the_job_itself_counts(asked: int) -> None:
    assert follows(replace(FIRST, asked=asked)).policy == "individual"


def test_nothing_of_a_retired_generation_counts() -> None:
    assert follows(FIRST, retired=Retired(5)).policy == "individual"


@pytest.mark.parametrize("wrong", [{"every_batches": 0}, {"interval_ms": 0}, {"asked": -1}, {"generation": "4"}])
def test_a_policy_that_no_worker_could_follow_is_malformed(wrong: dict[str, object]) -> None:
    raw = msgspec.to_builtins(Assignment("a", 0, (), policies=(FIRST,)))
    raw["policies"] = [{**msgspec.to_builtins(FIRST), **wrong}]
    with pytest.raises(msgspec.DecodeError):
        assignments.decode(msgspec.json.encode(raw))


def test_every_policy_says_which_settings_it_reads() -> None:
    read = {name for names in READ.values() for name in names}
    assert read == CheckpointSettings.model_fields.keys() - {"policy"}
