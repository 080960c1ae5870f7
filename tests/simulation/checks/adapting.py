"""Adaptive units and drills: what jobs ask, what must hold of each change that recovery makes of itself, and the bugs.

MECHANISMS A4, docs/decisions/0093. Whether an estimate is right is no matter here: copies measure simulated time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from random import Random
from typing import Any
from unittest import mock

from holdfast.schemas import assignments, commands, heartbeats
from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.adaptive import controller
from holdfast.services.recovery.core.adaptive.controller import Adaptive
from holdfast.services.recovery.core.adaptive.measured import STALE_US, Measured
from holdfast.services.recovery.core.adaptive.steadying import Steady
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.facts.terms import Terms, terms
from holdfast.services.recovery.core.unit.rules import adapting, drilling, unanswered
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import recording, switching
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.reasons import chosen_for_promise, drilled
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.faults.fault import Fault
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.observers.facts import mistaken

GRACE_US = 1_000_000
"""By so much longer than STALE_US a report may lie in the log: it is read later, and what it decides is written later
still."""


def draw_promise(random: Random) -> dict[str, Any]:
    """Promise of a job for its adaptive units: from one that nothing keeps to one that everything does."""
    return {
        "recovery_time_ms": random.choice((50, 200, 300, 400, 600, 1_500, 10_000)),
        "cool_down_s": random.choice((0.3, 1.0, 3.0)),
        "weights": {kind: random.choice((0, 1, 1, 10)) for kind in ("cpu", "memory", "network", "workers")},
    }


def asked_to_adapt(random: Random, faults: Sequence[Fault]) -> list[Fault]:
    """Half of the commands that name a scheme leave it to recovery."""
    return [_adaptive(one) if one.detail.startswith("scheme ") and random.random() < 0.5 else one for one in faults]


def _adaptive(fault: Fault) -> Fault:
    command, unit, _ = fault.detail.split(" ")
    return replace(fault, detail=f"{command} {unit} adaptive")


# -- what must hold ---------------------------------------------------------------------------------------------------


def check(written: Sequence[Written], plan: Plan) -> Iterator[str]:
    """Checks one generation."""
    asked = terms(plan)
    assigned, reported = Assigned(), dict[tuple[str, str, str], int]()
    led, schemed = dict[str, tuple[tuple[str, str], int]](), dict[str, int]()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats:
            beat = heartbeats.decode(one.value)
            if isinstance(beat, Heartbeat):
                for costs in beat.costs:
                    if costs.leads:
                        reported[costs.unit, beat.worker, beat.incarnation] = one.time_us
        if one.partition.topic != TOPICS.assignments:
            continue
        before = dict(assigned.units())
        for change in assigned.read(assignments.decode(one.value)):
            was = before.get(change.unit)
            before[change.unit] = change
            if change.unit not in asked:
                continue
            if chosen_for_promise(change):
                yield from _chosen(was, change, asked[change.unit], one.time_us, reported, led, schemed)
            if drilled(change) and was is not None and (why := _under_way(was, asked[change.unit])):
                yield f"drilled: {change.unit}#{change.epoch} while {why}"
            if was is None or (was.scheme, was.adaptive) != (change.scheme, change.adaptive):
                schemed[change.unit] = one.time_us
            leader = ("", "") if change.committer is None else (change.committer.worker, change.committer.incarnation)
            if led.get(change.unit, (("", ""), 0))[0] != leader:
                led[change.unit] = leader, one.time_us


def _chosen(
    was: Change | None,
    change: Change,
    of: Terms,
    now_us: int,
    reported: Mapping[tuple[str, str, str], int],
    led: Mapping[str, tuple[tuple[str, str], int]],
    schemed: Mapping[str, int],
) -> Iterator[str]:
    """Violations in a change that recovery makes of itself."""
    where = f"{change.unit}#{change.epoch}"
    if was is None or not was.adaptive or was.asked != change.asked:
        yield f"adapted: {where} though nobody has left its scheme to recovery"
        return
    if why := _under_way(was, of):
        yield f"adapted: {where} while {why}"
    if (since_us := now_us - schemed[change.unit]) < of.promise.cool_down_us:
        yield f"cool-down: {where} {since_us} us after the last change of its scheme"
    (worker, incarnation), led_us = led[change.unit]
    heard_us = reported.get((change.unit, worker, incarnation), -1)
    if heard_us < led_us or now_us - heard_us > STALE_US + GRACE_US:
        yield f"stale: {where} by what its leader {worker} has not reported, as the leader, lately"


def _under_way(was: Change, of: Terms) -> str:
    """Other event of the unit at that time; empty if it was at rest, as far as its last record says."""
    stood, target = stance(was), of.target(was.scheme)
    if stood is Stance.ALONE:
        return "" if target is Rung.ABSENT else "it had no secondary"
    if stood is not Stance.NORMAL:
        return f"it was {stood.value}"
    return "" if Rung.of(was.copies[1].flags) is target else "its secondary was on the way to another scheme"


def obeyed(written: Sequence[Written], plan: Plan, until_us: int | None) -> Iterator[str]:
    """The last scheme that a user has asked for, before all faults ended, is the one in the end."""
    first, last = int(plan.generation.split("-")[0]), dict[str, tuple[int, str]]()
    known = {unit_key(plan.job, plan.generation, unit.name): unit for unit in plan.units if not unit.host}
    final: dict[str, tuple[int, Change]] = {}
    assigned = Assigned()
    for one in written:
        if one.partition.topic == TOPICS.submit and one.offset > first:
            record = commands.decode(one.value)
            if not isinstance(record, Command):
                return  # a later job of the name takes the commands
            key = unit_key(plan.job, plan.generation, record.unit)
            if record.command == "scheme" and key in known and until_us is not None and one.time_us < until_us:
                last[key] = one.time_us, record.scheme
            elif record.command in ("cancel", "drain") and (until_us is None or one.time_us < until_us):
                return
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                if change.copies:
                    final[change.unit] = one.time_us, change
    for key, (_, scheme) in last.items():
        change = final[key][1] if key in final else Change(key, 0)
        has = "adaptive" if change.adaptive else change.scheme
        if key in final and has != scheme and change.deadly is None:
            yield f"ignored: a user asked for {scheme} of {key}, and in the end it is {has}#{change.epoch}"


# -- bugs -------------------------------------------------------------------------------------------------------------


def _adaptive_unit(s: Situation) -> bool:
    return s.asked.adaptive and s.change.adaptive and bool(s.change.copies)


def scheme_changed_during_a_switch() -> AbstractContextManager[object]:
    """The controller does not wait until the primary answers: the two change places under the new scheme."""
    rows = {(Stance.SWITCHED, Sign.CHOSEN): (Stance.NORMAL, Move.SETTLE)}
    bug = ExitStack()
    bug.enter_context(mock.patch.dict(switching.TRANSITIONS, rows))
    of_switched = (*switching.ROWS[Stance.SWITCHED], Sign.CHOSEN)
    bug.enter_context(mock.patch.dict(switching.ROWS, {Stance.SWITCHED: of_switched}))
    for where in (adapting, controller):
        bug.enter_context(mock.patch.object(where, "adaptable", _adaptive_unit))
    return bug


def _nobody_waits() -> AbstractContextManager[object]:
    """A cheaper scheme is taken in the look that finds it: no bug by itself, but it would hide others for long."""
    return mock.patch.object(Steady, "found", lambda self, now_us, cool_down_us: frozenset(self._since_us))


def no_cool_down() -> AbstractContextManager[object]:
    """The controller changes a scheme as soon as an estimate moves."""
    bug = ExitStack()
    bug.enter_context(_nobody_waits())
    bug.enter_context(mock.patch.object(Adaptive, "rested", return_value=True))
    return bug


def cool_down_of_ones_own_changes_alone() -> AbstractContextManager[object]:
    """A scheme that another replica has chosen begins no cool-down: two controllers take turns."""
    true = Adaptive.decided

    def decided(self: Adaptive, before: Change | None, change: Change, now_us: int) -> None:
        since_us, mine = self._changed_us.get(change.unit), self.verdicts.get(change.unit)
        true(self, before, change, now_us)
        if since_us is not None and chosen_for_promise(change) and (mine is None or mine.chosen != change.scheme):
            self._changed_us[change.unit] = since_us

    bug = ExitStack()
    bug.enter_context(_nobody_waits())
    bug.enter_context(mock.patch.object(Adaptive, "decided", decided))
    return bug


def estimates_of_a_former_leader() -> AbstractContextManager[object]:
    """Takes the last report of any copy for its leader's, however long ago it came."""

    def leader(self: Measured, change: Change, now_us: int) -> object:
        heard = [one for one in self._heard.values() if one.samples]
        return max(heard, key=lambda one: one.samples[-1][0], default=None)

    bug = ExitStack()
    bug.enter_context(_nobody_waits())
    bug.enter_context(mock.patch.object(Measured, "leader", leader))
    bug.enter_context(mock.patch.object(Measured, "decided"))
    return bug


def controllers_record_beats_a_command() -> AbstractContextManager[object]:
    """Takes a choice of the controller for the answer to every command that it has not seen yet."""
    true = recording._asked

    def asked(s: Situation, sign: Sign, move: Move) -> tuple[str, int, bool]:
        scheme, offset, adaptive = true(s, sign, move)
        return scheme, offset + 10 if sign is Sign.CHOSEN else offset, adaptive

    return mock.patch.object(recording, "_asked", asked)


def commands_wait_for_the_controller() -> AbstractContextManager[object]:
    """Leaves a user's command for an adaptive unit to recovery, too."""
    true = unanswered.scheme
    return mistaken(unanswered, "scheme", lambda s: not s.change.adaptive and true(s))


def drill_of_whatever_there_is() -> AbstractContextManager[object]:
    """A drill does not wait until the unit is protected."""
    return mock.patch.object(drilling, "against", return_value="")
