"""What checkpoint policies promise, seen from beside: every worker is looked at after each of its turns (MECHANISMS S4,
C3; docs/decisions/0080).

A look sees where a turn has ended. What was true throughout a turn is known where two looks agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.assignments import CheckpointPolicy
from services.worker.checkpoint.policies.idle_minmax import IdleMinMax
from services.worker.process.loop import Worker
from services.worker.unit.checkpoints import Checkpoints
from services.worker.unit.running import Running

IDLE = ("idle-minmax", "idle-roundrobin")
PROMISING = (*IDLE, "whole-worker", "aligned")
"""Policies that promise something: under the others there is nothing to look at."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One copy after a turn. encoding: pieces of its run are yet to be written. applied: runs of other copies."""

    of: Checkpoints
    terms: CheckpointPolicy
    leads: bool
    ended: bool
    batch: int
    captured_ms: float
    captured_batch: int
    marked: int
    encoding: bool
    applied: int

    @classmethod
    def at(cls, running: Running) -> Seen:
        own = running.checkpoints
        return cls(
            own,
            running.job.checkpoint,
            running.commits,
            running.ended,
            running.batch,
            own.captured_ms,
            own.captured_batch,
            0 if running.marker is None else running.marker.b,
            own.checkpointer.writer.phase.value == "encoding",
            running._spent.applies + own.checkpointer.applier.waiting,
        )

    def begun(self, before: Seen) -> bool:
        """A capture has begun since."""
        return self.captured_batch != before.captured_batch


class Captures:
    """wrong: where a policy was not kept."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._entries: dict[str, tuple[str, ...]] = {}
        self._last: dict[str, dict[str, Seen]] = {}

    def look(self, own: str, worker: Worker) -> None:
        """own: the worker's incarnation."""
        if not any(job.checkpoint.policy in PROMISING for job in worker._jobs.values()):
            self._last.pop(own, None)
            return
        copies = worker._copies.here.items()
        now = {unit: Seen.at(copy.running) for unit, copy in copies if copy.running is not None}
        known, self._last[own] = self._last.get(own, {}), now
        before = {unit: one for unit, one in known.items() if unit in now and now[unit].of is one.of}
        self._look_at_entry(own, now)
        for unit, was in before.items():
            if was.leads and now[unit].leads:
                self._look(unit, was, now[unit], before, now)

    def _look_at_entry(self, own: str, now: dict[str, Seen]) -> None:
        """What is captured as one entry has one backup."""
        scheduler = next((one.of._scheduler for one in now.values()), None)
        policy = None if scheduler is None else next(iter(scheduler._made.get(IdleMinMax.name, ())), None)
        if not isinstance(policy, IdleMinMax) or policy.entry is self._entries.get(own):
            return
        self._entries[own] = policy.entry
        backups = {now[unit].of.backup for unit in policy.entry if unit in now}
        if len(backups) > 1:
            self._note(f"merged: {', '.join(policy.entry)} are captured as one, with backups {sorted(backups)}")

    def _look(self, unit: str, was: Seen, one: Seen, before: dict[str, Seen], now: dict[str, Seen]) -> None:
        others = {name for name in before if name != unit and now[name].encoding and before[name].encoding}
        throughout = {name for name in others if not now[name].begun(before[name])}
        if was.terms != one.terms:
            return  # another policy is followed since, from some moment of the turn on
        if one.terms.policy in IDLE and one.begun(was):
            if throughout or (one.encoding and any(now[name].encoding for name in now if name != unit)):
                self._note(f"captures: {unit} was captured while another capture of its worker was written")
            elif not one.ended and one.captured_ms - was.captured_ms < one.terms.min_interval_ms:
                self._note(f"interval: {unit} was captured {one.captured_ms - was.captured_ms:.0f} ms after its last")
        whole = {name for name in throughout if now[name].leads and now[name].terms.policy == "whole-worker"}
        if whole and one.terms.policy == "whole-worker" and one.batch > was.batch:
            self._note(f"whole: {unit} processed a batch during the checkpoint of its worker")
        if one.terms.policy == "aligned":
            self._aligned(unit, was, one)

    def _aligned(self, unit: str, was: Seen, one: Seen) -> None:
        every = one.terms.every_batches
        if one.begun(was) and one.captured_batch % every and not one.ended:
            self._note(f"aligned: {unit} was captured after batch {one.captured_batch}, one in {every} is to be")
        due = one.batch // every * every
        passed = was.batch <= due < one.batch and max(one.captured_batch, one.marked) < due
        if passed and was.marked < due and one.applied == was.applied:
            self._note(f"aligned: {unit} processed batch {one.batch} and was not captured after batch {due}")

    def _note(self, wrong: str) -> None:
        if len(self.wrong) < 10:
            self.wrong.append(wrong)
