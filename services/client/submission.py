"""Writes requests to `jobs.submit`, and waits until the cluster has done or refused them.

Source: PROTOCOL 1, JOBS "Submitting by Kafka alone works too".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.schemas import commands, formats
from holdfast.schemas.assignments import unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.job_operators import Spark
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Counts, Decision, Ended, Plan, Problem, Rejection, Status
from holdfast.schemas.topics import Partition, generation
from holdfast.services.client.current import await_format
from holdfast.services.kernel.errors import CommandFailed, JobRejected, Retriable
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine
from holdfast.services.view.protection import PASSING
from holdfast.services.view.reader import Watch, read_all, read_jobs

ANSWER_S = 5.0
LOOK_AGAIN_S = 0.2
PATIENCE_S, SPARK_S = 60.0, 240.0
"""Longest time until a job runs, and the additional time for each operator on Spark: the controller gives Spark three
minutes to say what it makes of one, and then a driver and its JVM start.
"""

WANTED_STATE = {"pause": "paused", "resume": "running"}


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that runs."""

    job: str
    generation: str
    status: Status


def on_spark(spec: JobSpec) -> list[str]:
    """The job's operators that Spark runs."""
    return [name for name, operator in spec.operators.items() if isinstance(operator, Spark)]


def patience_s(spark: Sequence[str]) -> float:
    return PATIENCE_S + SPARK_S * len(spark)


def submit(door: Door, raw: dict[str, Any], timeout_s: float, report: Callable[[str], None]) -> Submitted:
    """Returns once every unit runs.

    Args:
        report: called with the progress whenever the cluster reports it.

    Raises:
        JobRejected: the cluster refuses it. CommandFailed: it failed, or does not run in time.
    """
    await_readers(door, raw)
    with Watch(door.log, door.topics) as watch:
        run = append_job(door, raw)
        last = Status(str(raw.get("name")), run, "submitted", 0)
        for record in watch.records(timeout_s):
            if isinstance(record, Event) or record.generation != run:
                continue
            if isinstance(record, Status):
                last = record
                report(_how_far(last))
            if (done := awaited(record, run)) is not None:
                return done
    raise CommandFailed(_not_yet(last, timeout_s), f"`holdfast status {last.job}` shows whether it comes up later")


def await_readers(door: Door, raw: dict[str, Any]) -> None:
    """Returns once every process of the cluster supports the features of the job. Raises CommandFailed."""
    if _clocked(raw):
        await_format(door, format=formats.CLOCKED, what="timers by the time of day, or code that awaits answers")


def _clocked(raw: dict[str, Any]) -> bool:
    """True if code of the job asks for the time of day, or awaits answers: the release before reads neither."""
    operators = raw.get("operators")
    return isinstance(operators, dict) and any(_of_this_release(one) for one in operators.values())


def _of_this_release(operator: object) -> bool:
    return isinstance(operator, dict) and any(
        operator.get(setting) not in (None, False) for setting in formats.CLOCKED_SETTINGS
    )


def awaited(record: Decision | Status | Event, generation: str) -> Submitted | None:
    """The running generation, if the record reports it; None: not yet. Raises JobRejected or CommandFailed if it will
    not run.
    """
    if isinstance(record, Event) or record.generation != generation:
        return None
    if isinstance(record, Rejection):
        raise JobRejected(record.problems)
    if isinstance(record, Ended):
        raise CommandFailed(f"job {record.job} has ended: {record.reason}")
    if isinstance(record, Status) and record.state in ("running", "paused"):  # the next one of a job that was paused is
        return Submitted(record.job, generation, record)
    if isinstance(record, Status) and record.state == "failed":
        raise CommandFailed(f"job {record.job} failed: {record.error}", f"`holdfast status {record.job}`")
    return None


def sink_warnings(door: Door, generation: str) -> list[str]:
    """Warnings that other jobs write to the same topics: readers can distinguish the rows only by their headers."""
    return [
        f"job {', '.join(jobs)} writes to topic {topic}, too: the header `job` says whose a row is"
        for topic, jobs in read_jobs(door).shared_sinks(generation).items()
    ]


def unprotected(door: Door, generation: str) -> dict[str, tuple[str, ...]]:
    """Units of a job that has just begun to which no standby will come, by the reason (services/view/protection.py)."""
    view = read_all(door)
    job = next((one for one in view.jobs() if one.generation == generation), None)
    found = {} if job is None else view.unprotected(job, int(time.time() * 1000))
    return {reason: units for reason, units in found.items() if reason not in PASSING}


def _how_far(status: Status) -> str:
    if status.state == "accepted":
        return "accepted: Spark is asked what it makes of the job"
    why = f": {status.error}" if status.error else ""
    return f"{status.state}: {status.available} of {plural(status.units, 'unit')} run{why}"


def _not_yet(last: Status, timeout_s: float) -> str:
    if last.state == "submitted":
        return f"no controller has answered within {timeout_s:g} s"
    why = f": {last.error}" if last.error else ""
    up = f"{last.available} of {plural(last.units, 'unit')} run"
    return f"job {last.job} is {last.state} after {timeout_s:g} s, {up}{why}"


def append_job(door: Door, asked: dict[str, Any] | Command) -> str:
    """Returns the generation that a job gets by the record's place, time and bytes."""
    time_ms, record = int(time.time() * 1000), commands.encode(asked)
    return generation(append(door, record, time_ms), time_ms, record)


def append(door: Door, record: bytes, time_ms: int | None = None) -> int:
    """Submits the record; its offset."""
    appender = door.log.appender("submit")
    offsets: list[int] = []
    try:
        submit = Partition(door.topics.submit, 0)
        appender.append(submit, record, timestamp_ms=time_ms, done=lambda error, offset: offsets.append(offset))
        appender.flush(ANSWER_S)
    finally:
        appender.close()
    return offsets[0]


def command(door: Door, kind: str, job: JobLine, timeout_s: float, start: str = "") -> Counts:
    """Returns once the job has been paused, has been resumed or has ended; then with what it has counted.

    Args:
        start: for resume, where topics that were created again are read from.

    Raises:
        CommandFailed: it is refused, or not done in time (it may be later).
    """
    with Watch(door.log, door.topics) as watch:
        append_job(door, Command(kind, job.job, start=start))
        for record in watch.records(timeout_s):
            if _done(record, kind, job):
                return record if isinstance(record, Ended) else Counts()
            if isinstance(record, Event) and record.kind == "command-refused" and record.job == job.job:
                raise CommandFailed(f"refused: {record.detail}")
            if isinstance(record, Status) and kind != "cancel" and _failed(record, job):
                raise CommandFailed(f"job {job.job} failed: {record.error}", f"`holdfast cancel {job.job}` ends it")
    raise CommandFailed(f"{kind} of {job.job} is not done after {timeout_s:g} s", "it continues: see `holdfast status`")


def change_scheme(door: Door, job: JobLine, unit: str, scheme: str, timeout_s: float) -> None:
    """Returns once a valid assignment of the unit has this scheme; copies that it requires may not be ready yet.

    Raises:
        CommandFailed: the change is refused, or not decided in time.
    """
    key = unit_key(job.job, job.generation, unit)
    offset = append(door, commands.encode(Command("scheme", job.job, unit, scheme)))
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(Retriable):  # a broker that is busy is asked again
            change = read_all(door).change(key)
            if change is not None and scheme == ("adaptive" if change.adaptive else change.scheme):
                return
            if change is not None and change.asked == offset:
                raise CommandFailed(f"refused: {change.reason}")
        time.sleep(LOOK_AGAIN_S)
    raise CommandFailed(
        f"{unit} is not under {scheme} after {timeout_s:g} s", "it changes once its copies allow it: `holdfast units`"
    )


def accept_versions(door: Door, job: JobLine, plan: Plan, timeout_s: float) -> dict[str, tuple[str, ...]]:
    """Returns which versions may lead each unit that workers run, once recovery has decided it of all of them.

    Raises:
        CommandFailed: it has not in time.
    """
    keys = {one.name: unit_key(job.job, job.generation, one.name) for one in plan.units if not one.host}
    offset = append(door, commands.encode(Command("accept", job.job)))
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(Retriable):  # a broker that is busy is asked again
            view = read_all(door)
            over = {one.unit for one in view.units(plan) if any(copy.state == "ended" for copy in one.copies)}
            changes = {unit: view.change(key) for unit, key in keys.items() if unit not in over}
            found = {unit: change for unit, change in changes.items() if change is not None and change.copies}
            if all(change.accepted >= offset for change in found.values()):
                return {unit: change.shown for unit, change in found.items()}
        time.sleep(LOOK_AGAIN_S)
    raise CommandFailed(f"nothing has decided it after {timeout_s:g} s", "`holdfast status` says whether its units run")


def _failed(record: Status, job: JobLine) -> bool:
    return (record.generation, record.state) == (job.generation, "failed")


def _done(record: object, kind: str, job: JobLine) -> bool:
    if kind in WANTED_STATE:
        return isinstance(record, Status) and (record.generation, record.state) == (job.generation, WANTED_STATE[kind])
    return isinstance(record, Ended) and record.generation == job.generation


def problem_lines(problems: tuple[Problem, ...]) -> list[dict[str, str]]:
    """Problems for `--json`, each with every key."""
    return [msgspec.structs.asdict(one) for one in problems]
