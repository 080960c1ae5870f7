"""Actions of a viewer, made by the library of the commands. A read-only console makes none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.schemas.commands import Command
from holdfast.schemas.job_settings import POLICY_NAMES
from holdfast.services.client import submission
from holdfast.services.client.drill import drill_unit
from holdfast.services.client.move import move_unit, placed
from holdfast.services.client.planned_job import missing_topics
from holdfast.services.client.policy_change import change_policy
from holdfast.services.client.resent_letters import resend
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.planning.available import SCHEMES
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plain_data import read
from holdfast.services.view.door import Door
from holdfast.services.view.letters import find_letters
from holdfast.services.view.reader import read_jobs, running_job, running_unit

READ_ONLY = "this console is read-only"
PATIENCE_S = {"pause": 60.0, "resume": 60.0, "drain": 300.0, "cancel": 300.0}
DRILL_S = MOVE_S = 90.0
SCHEME_S = POLICY_S = 60.0
STALL_S = 5.0


@dataclass(frozen=True, slots=True)
class Machine:
    """The cluster on this machine.

    kill: ends a worker without warning.
    stall: stops a worker for a number of seconds.
    """

    kill: Callable[[str], object]
    stall: Callable[[str, float], None]


class Actions:
    """Each method returns once it is done, with what was done in words, or raises CommandFailed or JobRejected.

    Args:
        machine: None: the cluster runs elsewhere.
        allow: modules that operators may come from.
    """

    def __init__(self, door: Door, machine: Machine | None, allow: list[str], *, read_only: bool) -> None:
        self._door = door
        self._machine = machine
        self.allow = allow
        self.read_only = read_only

    @property
    def may_strike(self) -> bool:
        """True if workers can be killed and stalled."""
        return self._machine is not None and not self.read_only

    def command(self, kind: str, name: str) -> str:
        """Runs a command on a job; returns the outcome as text. Raises CommandFailed.

        kind: pause, resume, drain or cancel.
        """
        self._check()
        if kind not in PATIENCE_S:
            raise CommandFailed(f"there is no action '{kind}'", f"one of {', '.join(PATIENCE_S)}", USAGE)
        job = running_job(read_jobs(self._door), name, "no command changes it")
        submission.command(self._door, kind, job, PATIENCE_S[kind])
        done = submission.WANTED_STATE.get(kind)
        return f"Job {job.job} {f'is {done}' if done else 'has ended'}."

    def drill(self, name: str, unit: str) -> str:
        self._check()
        done = drill_unit(self._door, running_unit(read_jobs(self._door), name, unit), unit, DRILL_S)
        total = done.actual.get("total")
        took = "" if total is None else f" after {total:,.0f} ms"
        return f"{done.worker} leads {unit}{took}."

    def move(self, name: str, unit: str, worker: str) -> str:
        self._check()
        job, former = placed(self._door, name, unit, worker)
        if former == worker:
            return f"{unit} runs on {worker} already."
        moved = move_unit(self._door, job, unit, worker, MOVE_S)
        silence = "" if moved.silence_ms is None else f"; output paused for {moved.silence_ms:,.0f} ms"
        return f"{unit} runs on {worker} now, after {moved.took_ms:,.0f} ms{silence}."

    def scheme(self, name: str, unit: str, wanted: str) -> str:
        self._check()
        if wanted not in SCHEMES:
            raise CommandFailed(f"there is no scheme '{wanted}'", f"one of {', '.join(sorted(SCHEMES))}", USAGE)
        job = running_unit(read_jobs(self._door), name, unit)
        submission.change_scheme(self._door, job, unit, wanted, SCHEME_S)
        return f"{unit} is under {wanted}."

    def checkpoint(self, name: str, policy: str, interval_ms: int | None = None) -> str:
        """Changes the checkpoint policy of a job; returns the outcome as text. Raises CommandFailed.

        interval_ms: None leaves the interval unchanged.
        """
        self._check()
        if policy not in POLICY_NAMES:
            raise CommandFailed(f"there is no policy '{policy}'", f"one of {', '.join(POLICY_NAMES)}", USAGE)
        job = running_job(read_jobs(self._door), name, "it captures nothing")
        command = Command("checkpoint", job.job, policy=policy, interval_ms=interval_ms)
        return f"Job {job.job} captures by {change_policy(self._door, job, command, POLICY_S)}."

    def replay(self, name: str) -> str:
        """Sends the dead letters of a job back to their topics, each once."""
        self._check()
        topics = find_letters(replace(self._door, present=self._door.log.topics()), name)
        resent = resend(self._door.log, topics, self._door.log.topics())
        sent = [f"{plural(count, 'record')} back to {topic}" for topic, count in resent.sent.items()]
        kept = resent.earlier + resent.again + resent.of_operators + resent.gone
        rest = f"; {plural(kept, 'dead letter')} could not be sent, or were sent before" if kept else ""
        return f"Sent {' and '.join(sent) or 'nothing'}{rest}."

    def strike(self, kind: str, worker: str) -> str:
        """Kills or stalls a worker; returns the outcome as text. Raises CommandFailed.

        kind: kill or stall.
        """
        self._check()
        if self._machine is None:
            raise CommandFailed("the cluster does not run on this machine")
        if kind == "kill":
            self._machine.kill(worker)
            return f"{worker} was killed. The time line of takeovers shows what happens."
        if kind != "stall":
            raise CommandFailed(f"there is no action '{kind}'", "one of kill, stall", USAGE)
        self._machine.stall(worker, STALL_S)
        return f"{worker} continues after {STALL_S:g} s."

    def submit(self, written: str, *, create_topics: bool) -> str:
        self._check()
        raw = read(written, "the job file")
        spec = interpret(raw, "the job file")
        door = replace(self._door, present=self._door.log.topics())
        if create_topics:
            door.log.create(missing_topics(spec, door.present, door.topics.prefix, self.allow, None))
        patience_s = submission.patience_s(submission.on_spark(spec))
        done = submission.submit(door, raw, patience_s, lambda how_far: None)
        return f"Job {done.job} runs in {plural(done.status.units, 'unit')}."

    def _check(self) -> None:
        if self.read_only:
            raise CommandFailed(READ_ONLY, "start `holdfast console` without --read-only")
