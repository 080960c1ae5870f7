"""Every row of a job's table, taken by the core from records and outcomes alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from holdfast.schemas.assignments import PRIMARY, RUN, STOP, Assignment, Change, Copy, Goal, GoalKind
from holdfast.schemas.commands import Command, encode
from holdfast.schemas.cuts import Range, TaskCuts
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Decision, Ended, Plan, Problem, Rejection, Seed
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import generation
from holdfast.services.controller.core import actions as do
from holdfast.services.controller.core import events as happened
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.core.job import Control
from holdfast.services.controller.core.life import TRANSITIONS, Deed, Phase, Step
from holdfast.services.kernel.plans.layout import task_name
from tests.support.golden import golden
from tests.unit.planning import jobs

P, S = Phase, Step

RECORD = msgspec.json.encode({"name": "job"})
G = generation(0, 0, RECORD)
PLAN: Plan = msgspec.structs.replace(
    jobs.plan(jobs.job({"n": {"aggregate": {"c": "count()"}, "key": ["x"], "input": "s"}}), {"in": 1, "out": 1}),
    generation=G,
    id=Id("other", 1),
)
REJECTION = Rejection("job", G, Id("other", 1), (Problem("name", "is taken"),))
END = Ended("job", G, Id("other", 2), Id("other", 1), "cancelled")
UNITS = [f"job@{G}/{unit.name}" for unit in PLAN.units]

ACTIONS = {
    None: None,
    Deed.DRAFT: do.Draft,
    Deed.PROPOSE: do.AppendDecision,
    Deed.CREATE: do.CreateTopics,
    Deed.DRAIN: do.AppendControl,
    Deed.FENCE: do.FenceIds,
    Deed.DELETE: do.DeleteTopics,
    Deed.PROPOSE_END: do.AppendDecision,
}


class Core:
    """A core, and what it asked for last."""

    def __init__(self) -> None:
        self.core = Controller("mine")
        self.asked: list[do.Action] = []
        self._epoch = self._read = 0
        self.offset = 0

    def handle(self, *events: happened.Event) -> Core:
        for event in events:
            self.asked = self.core.handle(event, 0)
            self.core.check_invariants()
        return self

    @property
    def phase(self) -> Phase:
        return self.core.jobs[G].life.phase

    def done(self, kind: type) -> Core:
        """The action of that kind is carried out."""
        action = self.core.jobs[G].asked
        assert action is not None
        assert isinstance(action, kind)
        return self.handle(happened.Done(action))

    def read(self, decision: Decision) -> Core:
        return self.handle(happened.DecisionRead(decision))

    def assign(self, *copies: Copy, asked: int = -1) -> Core:
        self._epoch += 1
        changes = tuple(Change(unit, self._epoch, copies, reason="cancelled", asked=asked) for unit in UNITS)
        return self._assigned(Assignment("other", 0, changes))

    def state(self, kind: GoalKind, asked: int = -1, reason: str = "cancelled") -> Core:
        """Somebody states a goal."""
        return self._assigned(Assignment("other", 0, (), goals=(Goal("job", G, kind, reason, asked),)))

    def _assigned(self, record: Assignment) -> Core:
        self._read += 1
        return self.handle(happened.AssignmentRead(record, self._read - 1))

    def command(self, command: str) -> Core:
        self.offset += 1
        return self.handle(happened.Submitted(self.offset, 0, encode(Command(command, "job"))))

    def run_out(self) -> Core:
        return self.handle(*(happened.ProgressRead(G, Progress(u.name, 1, 1, ended=True)) for u in PLAN.units))


def at(phase: Phase) -> Core:
    """A core with one job that stands there."""
    core = Core()
    submitted, caught_up = happened.Submitted(0, 0, RECORD), happened.CaughtUp()
    if phase is P.SUBMITTED:
        return core.handle(submitted)
    if phase is P.ADMITTED:
        return core.handle(submitted).read(PLAN)
    core.handle(caught_up, submitted)
    if phase in (P.DRAFTING, P.DECIDING):
        return core if phase is P.DRAFTING else core.handle(happened.Drafted(PLAN))
    core.handle(happened.BeatRead(Heartbeat("w", "1", 0, slots=8))).read(PLAN)
    way: list[tuple[Phase, Callable[[], Core]]] = [
        (P.CREATING, lambda: core),
        (P.PLACING, lambda: core.done(do.CreateTopics)),
        (P.RUNNING, lambda: core.assign(Copy("w", "1", PRIMARY))),
        (P.DRAINING, lambda: core.command("drain")),
        (P.STOPPING, lambda: core.command("cancel")),
        (P.FENCING, lambda: core.state(STOP, asked=core.offset).assign()),
        (P.DELETING, lambda: core.done(do.FenceIds)),
        (P.ENDING, lambda: core.done(do.DeleteTopics)),
    ]
    for reached, go in way:
        go()
        assert core.phase is reached
        if reached is phase:
            return core
    raise AssertionError(f"no way to {phase}")


def cause(core: Core, step: Step) -> Core:
    match step:
        case S.TURN_CAME | S.CLEARED:
            return core.handle(happened.CaughtUp())
        case S.DRAFTED:
            return core.handle(happened.Drafted(PLAN))
        case S.PLAN_READ:
            return core.read(PLAN)
        case S.REJECTION_READ:
            return core.read(REJECTION)
        case S.CREATED:
            return core.done(do.CreateTopics)
        case S.PLACED:
            return core.assign(Copy("w", "1", PRIMARY))
        case S.DRAIN_ASKED:
            return core.command("drain")
        case S.RAN_OUT:
            return core.run_out()
        case S.STOP_ASKED:
            return core.command("cancel").handle(happened.CaughtUp())
        case S.STOPPED:
            return core.state(STOP, asked=core.offset).assign()
        case S.FENCED:
            return core.done(do.FenceIds)
        case S.DELETED:
            return core.done(do.DeleteTopics)
        case S.END_READ:
            return core.read(END)


@pytest.mark.parametrize(("phase", "step"), TRANSITIONS, ids=lambda value: value.value)
def test_every_row_of_the_table_is_taken(phase: Phase, step: Step) -> None:
    core = at(phase)
    before = len(core.core.story)
    cause(core, step)
    after, deed = TRANSITIONS[phase, step]
    assert core.core.story[before].startswith(f"job@{G}: {phase.value} --{step.name.lower()}--> {after.value}")
    wanted = ACTIONS[deed]
    asked = [action for action in core.asked if not isinstance(action, do.PublishStatus | do.PublishEvent)]
    assert wanted is None or wanted in map(type, asked)


def asks_to_replace(core: Core, paused: int) -> str:
    """The next generation is submitted; its label without the name of the job."""
    start = {"topic": "t", "id": "i", "replaces": G, "paused": paused}
    record = msgspec.json.encode({"name": "job", "from_savepoint": start})
    core.offset += 1
    core.handle(happened.Submitted(core.offset, 0, record))
    return generation(core.offset, 0, record)


def replacing(g: str) -> Plan:
    """The plan of the next generation."""
    owned = {task_name(one.operator, at): own for one in PLAN.sources for at, own in enumerate(one.owners)}
    begins = {
        task: TaskCuts(None, 1, tuple(Range(p, 0, 0) for p in own), 0, idle=False, final=False)
        for task, own in owned.items()
    }
    seed = Seed("t", "i", 1, begins, {}, replaces=G)
    return msgspec.structs.replace(PLAN, generation=g, id=Id("other", 3), seed=seed)


def drafted(core: Core, g: str) -> Decision | None:
    """What the controller proposes of the next generation."""
    core.handle(happened.Drafted(replacing(g)))
    assert core.core.jobs[g].life.phase is P.DECIDING
    return core.core.jobs[g].proposal


def ends(core: Core, reason: str) -> None:
    core.read(msgspec.structs.replace(END, reason=reason))


def test_a_job_ends_for_the_next_generation_once_the_plan_of_that_one_is_valid() -> None:
    core = at(P.RUNNING).command("pause")
    next_one = asks_to_replace(core, paused=core.offset)
    assert isinstance(drafted(core, next_one), Plan)
    assert (core.phase, goals(core)) == (P.RUNNING, [])
    core.read(replacing(next_one))
    assert core.phase is P.STOPPING
    assert goals(core) == [Goal("job", G, STOP, f"replaced by job@{next_one}", core.offset)]
    assert core.core.jobs[next_one].life.phase is P.CREATING, "it begins beside the one that ends"
    core.command("resume")
    assert (core.core.jobs[G].control, core.core.jobs[next_one].control) == (Control("pause", 1), Control("resume", 3))


@pytest.mark.parametrize("rests", [False, True])
def test_a_job_that_takes_the_place_of_a_paused_one_is_paused_by_no_record(rests: bool) -> None:
    """Its cut log begins so."""
    core = at(P.RUNNING).command("pause")
    next_one = asks_to_replace(core, paused=core.offset)
    plan = replacing(next_one)
    assert plan.seed is not None
    core.read(msgspec.structs.replace(plan, seed=msgspec.structs.replace(plan.seed, rests=rests)))
    job = core.core.jobs[next_one]
    assert job.control == (Control("pause", core.offset) if rests else None)
    assert job.asked is not None
    core.handle(happened.Done(job.asked))
    assert not any(isinstance(action, do.AppendControl) for action in core.asked)


@pytest.mark.parametrize("decided", [False, True])
def test_a_controller_that_starts_creates_no_topics_of_a_job_that_was_replaced(decided: bool) -> None:
    """A former controller may have deleted them: the job then never ended."""
    core = at(P.ADMITTED).command("pause")
    next_one = asks_to_replace(core, paused=core.offset)
    if decided:
        core.read(replacing(next_one))
    core.handle(happened.CaughtUp())
    assert core.phase is (P.STOPPING if decided else P.CREATING)
    created = [action.plan.generation for action in core.asked if isinstance(action, do.CreateTopics)]
    assert created == [next_one if decided else G]


def test_a_next_generation_that_is_refused_leaves_the_job_as_it_is() -> None:
    core = at(P.RUNNING).command("pause")
    next_one = asks_to_replace(core, paused=core.offset)
    core.handle(happened.Refused(next_one, (Problem("name", "no", ""),)))
    assert isinstance(core.core.jobs[next_one].proposal, Rejection)
    core.read(Rejection("job", next_one, Id("other", 3), (Problem("name", "no", ""),)))
    assert (core.phase, goals(core)) == (P.RUNNING, [])


@pytest.mark.parametrize("meanwhile", ["resume", "pause", "drain", "cancel", "ended"])
def test_a_job_does_not_replace_one_that_was_not_held_for_it_to_the_end(meanwhile: str) -> None:
    core = at(P.RUNNING).command("pause")
    paused = core.offset
    if meanwhile != "ended":
        core.command(meanwhile)
    next_one = asks_to_replace(core, paused)
    if meanwhile == "ended":
        ends(core, "cancelled")
    assert isinstance(drafted(core, next_one), Rejection)
    assert core.core.jobs[G].cancel_offset == (2 if meanwhile == "cancel" else None)


@pytest.mark.parametrize("phase", [P.PLACING, P.RUNNING, P.DRAINING])
def test_a_job_that_another_replica_stops_is_stopped_here_too_once_the_command_is_read(phase: Phase) -> None:
    core = at(phase)
    core.state(STOP, asked=3).assign(asked=3)
    assert core.phase is (P.FENCING if phase is P.DRAINING else phase)
    assert not goals(core), "it waits for the command"
    while core.offset < 3:
        core.command("cancel")
    assert core.phase is P.FENCING


def goals(core: Core) -> list[Goal]:
    """Asked for with the last event."""
    return [goal for action in core.asked if isinstance(action, do.AppendAssigned) for goal in action.goals]


def test_a_goal_is_stated_once_and_again_if_it_was_not_appended() -> None:
    core = at(P.PLACING)
    (goal,) = goals(core)
    assert (goal.job_key, goal.kind, goal.asked) == (f"job@{G}", RUN, -1)
    assert not goals(core.handle(happened.Ticked()))
    core.handle(happened.Failed(do.AppendAssigned(goals=(goal,)), "the broker does not answer"))
    core.core.jobs[G].retry_ms = 0
    assert goals(core.handle(happened.Ticked())) == [goal]
    core.state(RUN)
    assert not goals(core.handle(happened.Ticked()))


def test_a_stop_names_the_command_that_asked_for_it() -> None:
    core = at(P.RUNNING).command("cancel")
    assert goals(core) == [Goal("job", G, STOP, "cancelled", core.offset)]


def test_a_job_is_over_only_when_every_unit_was_left_without_copies_behind_the_stop() -> None:
    core = at(P.RUNNING).assign().command("cancel")
    core.state(STOP, asked=core.offset)
    assert core.phase is P.STOPPING, "a replica that has not read the stop may place them again"
    assert core.assign().phase is P.FENCING


def test_a_job_that_a_controller_without_goals_took_down_ends_here() -> None:
    core = at(P.DRAINING).assign(asked=1)
    assert core.phase is P.STOPPING
    assert [goal.kind for goal in goals(core)] == [STOP]


@pytest.mark.parametrize("phase", [phase for phase in P if phase not in (P.ENDED, P.REJECTED)], ids=lambda p: p.value)
def test_reading_its_end_or_its_rejection_ends_a_job_wherever_it_stands(phase: Phase) -> None:
    core = at(phase)
    undecided = phase in (P.SUBMITTED, P.DRAFTING, P.DECIDING)
    core.read(REJECTION if undecided else END)
    assert core.phase is (P.REJECTED if undecided else P.ENDED)


def test_nothing_is_asked_for_before_the_logs_are_read() -> None:
    core = Core()
    core.handle(happened.Submitted(0, 0, RECORD), happened.Ticked()).read(PLAN).assign(Copy("w", "1", PRIMARY))
    core.command("cancel").handle(happened.BeatRead(Heartbeat("w", "1", 0)), happened.Ticked())
    assert core.asked == []
    assert core.phase is P.ADMITTED


def test_outcomes_that_come_too_late_change_nothing() -> None:
    core = at(P.STOPPING)
    story = list(core.core.story)
    core.handle(
        happened.Drafted(PLAN),
        happened.Refused(G, ()),
        happened.Done(do.CreateTopics(PLAN)),
        happened.Failed(do.CreateTopics(PLAN), "late"),
        happened.Done(do.PublishEvent(None)),  # type: ignore[arg-type]
        happened.Failed(do.PublishEvent(None), "late"),  # type: ignore[arg-type]
    )
    assert core.core.story == story


def test_a_unit_that_goes_back_after_its_end_has_still_ended() -> None:
    core, name = at(P.RUNNING).run_out(), PLAN.units[0].name
    core.handle(happened.ProgressRead(G, Progress(name, 0, 0, line=1)))
    assert core.core.jobs[G].all_ran_out


def test_a_unit_has_ended_whatever_batch_somebody_else_has_published_for_it() -> None:
    core = at(P.RUNNING)
    core.handle(*(happened.ProgressRead(G, Progress(unit.name, 1_000_000, 1_000_000)) for unit in PLAN.units))
    assert core.run_out().core.jobs[G].all_ran_out
    core.handle(happened.ProgressRead(G, Progress(PLAN.units[0].name, 2_000_000, 2_000_000)))
    assert core.core.jobs[G].all_ran_out


def test_the_life_of_a_job_that_is_cancelled_while_it_drains_is_the_story_in_the_file() -> None:
    core = at(P.ENDING).read(END)
    assert core.core.story == golden(__file__, "cancelled-while-it-drains")


def test_the_life_of_a_drained_job_is_the_story_in_the_file() -> None:
    core = at(P.DRAINING).run_out()
    core.state(STOP, asked=core.offset, reason="drained").assign()
    core.done(do.FenceIds).done(do.DeleteTopics).read(END)
    assert core.core.story == golden(__file__, "drained-job")
