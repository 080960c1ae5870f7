"""The controller: folds the records about jobs, goals and workers, and takes every job a step on.

Source: PROTOCOL 0, 1, 3, 8 and 9. The controller states the goal of a job, to run or to stop; recovery places its units
and takes them down. Any number of replicas may run: each follows only the records that it reads back as valid, and
every action is harmless if another replica did it, too. The next step of a job is a function of the logs, so any
controller can continue. The transition table of a job is in life.py.
"""

from __future__ import annotations

from holdfast.schemas.assignments import RUN, STOP, Assignment, GoalKind, split_unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event as Happened
from holdfast.schemas.heartbeats import Heartbeat, HeartbeatRecord
from holdfast.schemas.plans import Decision, Plan, Rejection, Retirement, Status
from holdfast.schemas.topics import generation
from holdfast.services.controller.core import (
    command_effects,
    global_checkpoints,
    next_generation,
    policy_answers,
    reports,
    status,
    steps,
)
from holdfast.services.controller.core.actions import (
    Action,
    AppendAssigned,
    AppendControl,
    AppendDecision,
    FindRecords,
    ForgetStatus,
    PublishEvent,
    PublishStatus,
    Switch,
    generation_of,
)
from holdfast.services.controller.core.command_effects import Asked
from holdfast.services.controller.core.events import (
    AssignmentRead,
    AssignmentsBegun,
    BeatRead,
    CaughtUp,
    Counted,
    DecisionRead,
    Done,
    Drafted,
    Event,
    Failed,
    Found,
    ProgressRead,
    Published,
    Refused,
    Submitted,
    Ticked,
)
from holdfast.services.controller.core.fleet import Fleet
from holdfast.services.controller.core.goals import Goals
from holdfast.services.controller.core.job import Job
from holdfast.services.controller.core.life import PLACED, Deed, Life, Phase, Step
from holdfast.services.controller.core.obstacles import waiting
from holdfast.services.controller.core.submission import BadCommand, NamedJob, parse
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.sums import counted

BEAT_MS = 100
LOOK_MS = 100
"""Time between two computations of the availability of queries."""

RETRY_MS = 1_000
"""Pause after a failed action."""

DRAIN_AGAIN_MS = 5_000
"""Time between two drains: the cut log refuses one that lacks the end of a partition which joined meanwhile, and takes
only one."""

LATE_MS = 60_000
"""Age from which a command of the log to an unknown job stays unanswered: an earlier controller answered it."""


class Controller:
    """The core of one replica.

    Args:
        name: unique to this process, for ids of proposals.
        beat_ms: interval of the workers' heartbeats.
    """

    def __init__(self, name: str, beat_ms: int = BEAT_MS) -> None:
        self.name = name
        self.acting = False
        self.jobs: dict[str, Job] = {}
        self.fleet = Fleet(beat_ms * 1000)
        self.goals = Goals()
        self._admitted = Admitted()
        self._author = Author(name)
        self._commands: list[Asked] = []
        self._looked_ms = 0
        self._submitted_upto = 0
        self._actions: list[Action] = []

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        """Returns the actions to carry out now. now_ms: time of day; of records read before CaughtUp, their own."""
        self.fleet.advance(now_ms)
        if self._take(event, now_ms) and self.acting:
            self._advance(now_ms)
        actions, self._actions = self._actions, []
        return actions

    @property
    def watched(self) -> list[Plan]:
        """Plans of the jobs whose progress the core is to read."""
        wanted = (job for job in self.jobs.values() if self._watches(job))
        return [job.plan for job in wanted if job.plan is not None]

    def _watches(self, job: Job) -> bool:
        return job.life.phase is Phase.DRAINING or global_checkpoints.wanted(job, self.goals.standings)

    @property
    def story(self) -> list[str]:
        """Lines of each job's story, job by job."""
        return [line for job in self.jobs.values() for line in job.life.story]

    # -- records ------------------------------------------------------------------------------------------------------

    def _take(self, event: Event, now_ms: int) -> bool:
        """Folds the event; False if no action can follow from it before the next tick."""
        match event:
            case BeatRead():
                self._costs(event.record, now_ms)
                return self.fleet.read(event.record)
            case Published():
                for g, job in self.jobs.items():
                    job.formerly = event.statuses.get(g) or Status(job.name, g, "", now_ms)
                    job.availability.knows(job.formerly.queries)
            case Submitted():
                self._submitted(event, now_ms)
            case DecisionRead():
                self._decided(event.decision, now_ms)
            case AssignmentsBegun():
                self.goals.standings = event.standings
            case AssignmentRead():
                self.goals.read(event.record, event.offset)
                self._answered(event.record, now_ms)
            case ProgressRead():
                return self._progressed(event)
            case CaughtUp():
                self._begin(now_ms)
            case Drafted() | Refused():
                self._drafted(event)
            case Counted():
                self._counted(event)
            case Found():
                self._found(event, now_ms)
            case Done():
                self._done(event.action)
            case Failed():
                self._failed(event, now_ms)
            case Ticked():
                pass
        return True

    def _costs(self, record: HeartbeatRecord, now_ms: int) -> None:
        """Takes the latencies of results that the leaders of units report."""
        for costs in record.costs if isinstance(record, Heartbeat) and self.acting else ():
            _, g, unit = split_unit_key(costs.unit)
            if costs.leads and g in self.jobs:
                self.jobs[g].availability.read(unit, (record.worker, record.incarnation), costs, now_ms)

    def _look(self, now_ms: int) -> None:
        """Computes the availability of queries, and reports each query whose availability has changed."""
        if now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        assigned = self.goals.standings.assigned
        for job in self.jobs.values():
            if job.life.phase in PLACED:
                leaders = {name: status.leader(key, assigned, self.fleet) for key, name in job.units.items()}
                for query in job.availability.look(leaders, now_ms):
                    self._publish_event(reports.availability(job.name, query, now_ms))

    def _submitted(self, event: Submitted, now_ms: int) -> None:
        self._submitted_upto = max(self._submitted_upto, event.offset + 1)
        match parse(event.value):
            case NamedJob(name, start):
                g = generation(event.offset, event.timestamp_ms, event.value)
                if not self._admitted.retired.has(g):
                    self._job(g, name).value, self._job(g, name).start = event.value, start
            case BadCommand(job, cause):
                if self.acting:
                    self._publish_event(Happened(now_ms, "command-refused", job=job, detail=cause))
            case Command() as command:
                self._commands.append(Asked(event.offset, event.timestamp_ms, command, self.acting))

    def _job(self, g: str, name: str) -> Job:
        if g not in self.jobs:
            self.jobs[g] = Job(g, name, life=Life(f"{name}@{g}"))
        return self.jobs[g]

    def _decided(self, decision: Decision | Retirement, now_ms: int) -> None:
        if not self._admitted.read(decision):
            return
        if isinstance(decision, Retirement):
            self._forget()
            return
        job = self._job(decision.generation, decision.job)
        if isinstance(decision, Plan):
            if decision.prev is None:
                job.admit(decision)
            else:
                job.begin(decision)
            former = None if decision.seed is None else self.jobs.get(decision.seed.replaces)
            if former is not None and not decision.stands_by:
                former.make_way(job)
            self._step(job, Step.PLAN_READ)
        elif isinstance(decision, Rejection):
            job.problems = decision.problems
            self._step(job, Step.REJECTION_READ)
        else:
            job.counts = counted(decision)
            self._step(job, Step.END_READ)
        if self.acting and self._author.wrote(decision.id):
            self._publish_event(reports.decided(decision, now_ms))

    def _forget(self) -> None:
        """Forgets the jobs whose records have left `jobs.plans`."""
        for job in [job for job in self.jobs.values() if job.over and self._admitted.retired.has(job.generation)]:
            del self.jobs[job.generation]
            if self.acting:
                self._actions.append(ForgetStatus(job.label))

    def _progressed(self, event: ProgressRead) -> bool:
        """Takes the progress of a unit; True for its first end. Other progress can wait: it comes many times a second.

        A unit that goes back after its end has still ended: it repeats only what it has done before.
        """
        job, unit = self.jobs.get(event.generation), event.progress.unit
        if job is not None and unit in job.units.values():
            global_checkpoints.read(job, event.progress)
        if job is None or not event.progress.ended or unit in job.ran_out:
            return False
        job.ran_out.add(unit)
        return True

    def _begin(self, now_ms: int) -> None:
        """Begins to act: all records that the logs held at the start are read."""
        self.acting = True
        self.fleet.begin()
        for job in self.jobs.values():
            job.was_up = self.goals.all_placed(job)
            job.formerly_ms = now_ms + status.FORMERLY_MS

    # -- outcomes of actions ------------------------------------------------------------------------------------------

    def _drafted(self, event: Drafted | Refused) -> None:
        job = self.jobs.get(event.plan.generation if isinstance(event, Drafted) else event.generation)
        if job is not None and job.switch_asked:
            self._switched(job, event)
        if job is None or job.life.phase is not Phase.DRAFTING:
            return
        holder = self._admitted.named(job.name)
        in_use = self.jobs[holder.generation] if holder is not None else None
        held = in_use is not None and in_use.makes_room_for(job)
        if isinstance(event, Drafted) and in_use is None and (lost := job.lost()) is not None:
            job.refuse((lost,), None, self._author.next())
        elif isinstance(event, Drafted) and (in_use is None or held):
            job.proposal = event.plan
        else:
            problems = event.problems if isinstance(event, Refused) else ()
            job.refuse(problems, None if held else in_use, self._author.next())
        self._step(job, Step.DRAFTED)

    def _counted(self, event: Counted) -> None:
        """Takes the final counts of a job, which its end states."""
        job = self.jobs.get(event.generation)
        if job is not None and not job.over:
            job.counts = event.counts

    def _found(self, event: Found, now_ms: int) -> None:
        job = self.jobs[event.generation]
        job.records[event.unit] = event.records
        change = self.goals.standings.assigned.of(event.unit)
        if change is not None and change.deadly is not None:
            cause = status.quarantine(job.units[event.unit], change.deadly, event.records)
            self._publish_event(Happened(now_ms, "job-failed", job=job.name, unit=job.units[event.unit], detail=cause))

    def _done(self, action: Action) -> None:
        g = generation_of(action)
        if g is None:
            return
        job = self.jobs.get(g)
        if job is None:
            return
        if not isinstance(action, PublishStatus):
            job.trouble = ""
        if job.asked is action:
            job.asked = None
            if type(action) in steps.AFTER:
                self._step(job, steps.AFTER[type(action)])
        elif isinstance(action, AppendControl):
            job.control_done = max(job.control_done, action.offset)

    def _failed(self, event: Failed, now_ms: int) -> None:
        action, g = event.action, generation_of(event.action)
        if isinstance(action, AppendAssigned) and action.retired is not None:
            self.goals.retiring = None
        if g is None:
            return
        job = self.jobs.get(g)
        if job is None:
            return
        if isinstance(action, PublishStatus):
            job.published, job.published_ms = None, now_ms
            return
        job.retry_ms, job.trouble = now_ms + RETRY_MS, event.cause
        if isinstance(action, AppendAssigned):
            self._unassigned(job, action)
        elif job.asked is action:
            job.failed = action
        elif isinstance(action, AppendControl):
            job.control_asked = -1
        elif isinstance(action, AppendDecision | Switch):
            job.switch_asked = False
        elif isinstance(action, FindRecords):
            del job.records[action.unit]

    def _unassigned(self, job: Job, action: AppendAssigned) -> None:
        for goal in action.goals:
            self.goals.withdraw(goal)
        if action.policies:
            job.policy_asked = -1

    # -- steps --------------------------------------------------------------------------------------------------------

    def _advance(self, now_ms: int) -> None:
        self._command(now_ms)
        self._look(now_ms)
        for job in self.jobs.values():
            if job.settled:
                continue
            if job.retry_ms is None or now_ms >= job.retry_ms:
                self._again(job)
                while (step := steps.due(job, self.jobs.values(), self.goals, self.fleet)) is not None:
                    self._step(job, step)
                self._keep_going(job, now_ms)
            self._publish(job, now_ms)
        self._retire(now_ms)

    def _retire(self, now_ms: int) -> None:
        """Lets `assignments` forget the units of jobs that are over."""
        retired = self.goals.to_retire(self.jobs.values(), self._submitted_upto, now_ms)
        if retired is not None:
            self.goals.retiring = retired
            self._actions.append(AppendAssigned(retired=retired))

    def _again(self, job: Job) -> None:
        """Repeats the failed action, if it is still needed."""
        failed, job.failed, job.retry_ms = job.failed, None, None
        if failed is not None and job.asked is failed:
            self._actions.append(failed)

    def _step(self, job: Job, step: Step) -> None:
        changed, deed = job.life.handle(step)
        if changed:
            job.trouble = ""
            job.asked = None if deed is None else steps.action(job, deed, self._author, self.goals)
            if job.asked is not None:
                self._actions.append(job.asked)

    def _keep_going(self, job: Job, now_ms: int) -> None:
        """Repeats the actions of a phase until the logs hold their records."""
        if job.stands_by:
            self._switch(job, now_ms)
        if job.life.phase in PLACED:
            self._control(job)
            self._answer(job)
            self._complete(job, now_ms)
            self._find_records(job)
            self._drain_again(job, now_ms)
            self._state(job, RUN)
        elif job.life.phase is Phase.STOPPING:
            self._state(job, STOP)

    def _state(self, job: Job, kind: GoalKind) -> None:
        """States the goal, unless the log has it."""
        goal = self.goals.missing(job, kind, steps.reason(job, self.goals))
        if goal is not None:
            self.goals.propose(goal)
            self._actions.append(AppendAssigned(goals=(goal,)))

    def _control(self, job: Job) -> None:
        """Appends the last pause or resume; the cut log takes it once."""
        if job.control is not None and job.control.offset > job.control_asked:
            assert job.plan is not None, f"{job.label}: controlled without a plan"
            job.control_asked = job.control.offset
            self._actions.append(AppendControl(job.plan, job.control.kind, job.control.offset, job.control.start))

    def _switch(self, job: Job, now_ms: int) -> None:
        """Does the action that is due for a generation that stands by."""
        action = next_generation.due(job, self.jobs, self._author.next(), now_ms)
        if action is not None:
            job.switch_asked = True
            self._actions.append(action)

    def _switched(self, job: Job, event: Drafted | Refused) -> None:
        """Proposes the beginning of the generation that stood by, or its end without one."""
        if isinstance(event, Drafted):
            self._actions.append(AppendDecision(event.plan))
        elif job.plan is not None:
            why = "; ".join(map(str, event.problems))
            self._actions.append(AppendDecision(next_generation.given_up(job.plan, why, self._author.next())))

    def _answer(self, job: Job) -> None:
        """Answers the next command for another checkpoint policy."""
        policy = policy_answers.due(job, self.goals.standings)
        if policy is not None:
            self._actions.append(AppendAssigned(policies=(policy,)))

    def _complete(self, job: Job, now_ms: int) -> None:
        """States the newest complete global checkpoint."""
        checkpoint = global_checkpoints.due(job, self.goals.standings, now_ms)
        if checkpoint is not None:
            self._actions.append(AppendAssigned(checkpoints=(checkpoint,)))

    def _answered(self, record: Assignment, now_ms: int) -> None:
        """Publishes the valid answers of this controller."""
        for policy in record.policies:
            if self.acting and record.author == self.name and self.goals.standings.policy(policy.job_key) is policy:
                self._publish_event(reports.answered(policy, now_ms))

    def _find_records(self, job: Job) -> None:
        """Asks once for the records of each unit in quarantine."""
        for unit in job.units:
            change = self.goals.standings.assigned.of(unit)
            if change is not None and change.deadly is not None and unit not in job.records:
                assert job.plan is not None, f"{job.label}: a unit without a plan"
                job.records[unit] = None
                self._actions.append(FindRecords(job.plan, unit, change.deadly.batch))

    def _drain_again(self, job: Job, now_ms: int) -> None:
        """Repeats the drain; once a unit has run out, the drain was valid."""
        if job.life.phase is not Phase.DRAINING or job.asked is not None or job.ran_out:
            job.drained_ms = now_ms
        elif now_ms - job.drained_ms >= DRAIN_AGAIN_MS:
            job.drained_ms = now_ms
            self._actions.append(steps.action(job, Deed.DRAIN, self._author, self.goals))

    def _command(self, now_ms: int) -> None:
        """Notes each command at the job it concerns, once that job is decided."""
        waiting = []
        for asked in self._commands:
            if asked.command.command == "switch":
                noted = next_generation.note(asked, self.jobs)
                waiting += [asked] if noted.wait else []
                if noted.refused and asked.fresh:
                    self._publish_event(reports.refused(asked.command, noted.refused, now_ms))
                continue
            if next_generation.pending(asked, self.jobs):
                waiting.append(asked)
                continue
            job = command_effects.concerned(asked, self.jobs.values())
            if job is not None and job.undecided:
                waiting.append(asked)
            elif job is None:
                if asked.fresh or now_ms - asked.timestamp_ms <= LATE_MS:
                    self._publish_event(reports.refused(asked.command, f"no such job; {self._running()}", now_ms))
            elif (cause := command_effects.apply(asked, job)) and asked.fresh:
                self._publish_event(reports.refused(asked.command, cause, now_ms))
        self._commands = waiting

    def _running(self) -> str:
        names = sorted(plan.job for plan in self._admitted.running().values())
        return f"running: {', '.join(names)}" if names else "no job is running"

    def _publish(self, job: Job, now_ms: int) -> None:
        assigned = self.goals.standings.assigned
        why = waiting(job, assigned, self.fleet) if job.life.phase in PLACED else ""
        new = status.status(job, assigned, self.fleet, why, now_ms)
        job.was_up |= new.state == "running"
        job.stood = new.state, new.since_ms
        if status.due(new, job, now_ms):
            job.published, job.published_ms = new, now_ms
            self._actions.append(PublishStatus(new))

    def _publish_event(self, event: Happened) -> None:
        self._actions.append(PublishEvent(event))

    # -- invariants ---------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raises AssertionError if a name is held twice, or the phase of a job contradicts the logs."""
        live = (job for job in self.jobs.values() if not job.undecided and not job.over)
        held = [job.name for job in live if not job.successor and not job.stands_by]
        assert len(held) == len(set(held)), f"names held twice: {sorted(held)}"
        for job in self.jobs.values():
            phase, decided = job.life.phase, self._admitted.decided(job.generation)
            assert job.undecided != decided, f"{job.label}: {phase.value}, decided: {decided}"
            ended = self._admitted.ended(job.generation) is not None
            assert (phase is Phase.ENDED) == ended, f"{job.label}: {phase.value}, ended: {ended}"
            deed = job.asked is not None
            assert not deed or phase not in PLACED - {Phase.DRAINING}, f"{job.label}: {phase.value} waits for a deed"
