"""Assignments: each change is allowed, copies run where one names them, units move without a gap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.heartbeats import CopyState, Heartbeat
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.standings import Standings
from holdfast.services.recovery.core.unit.facts.changing import NEAR
from holdfast.services.recovery.core.unit.table import switching
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.checks.generation import Generation
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME


def transitions(written: list[Written]) -> Iterator[str]:
    """Every valid change is one that the table of transitions makes."""
    assigned = Assigned()
    for one in written:
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                try:
                    switching.check_invariants(change)
                except AssertionError as error:
                    yield f"assignment: {error}"


def snapshots(cluster: Cluster) -> Iterator[str]:
    """Every snapshot, and every process where it begins to read, has all units as the records below give them."""
    standings, states = Standings(), [Standings().snapshot()]
    for one in cluster.broker.written:
        if one.partition.topic == TOPICS.assignments:
            record = assignments.decode(one.value)
            said = record.snapshot
            if said is not None and (said.upto > one.offset or states[said.upto] != said):
                yield f"snapshot: that of {one.author} at {one.offset} is not what the log gives below {said.upto}"
            standings.read(one.offset, record)
            states.append(standings.snapshot())
    for begun in cluster.broker.beginnings:
        if not 0 <= begun.next < len(states):
            yield f"beginning: {begun.author} began to read at {begun.next}, which is no place in the log"
        elif {each.change.unit: each.change for each in states[begun.next].units} != begun.units:
            yield f"beginning: {begun.author} began to read at {begun.next} with other assignments than the log gives"


def _changes(written: list[Written]) -> dict[str, list[tuple[int, Change]]]:
    """The valid changes of each unit, with their places in the trace."""
    assigned, found = Assigned(), defaultdict[str, list[tuple[int, Change]]](list)
    for place, one in enumerate(written):
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                found[change.unit].append((place, change))
    return found


def moves(written: list[Written]) -> Iterator[str]:
    """While a unit moves it keeps the copies it has; the new one leads only once it has caught up."""
    assigned, reports = Assigned(), dict[tuple[str, str], CopyState]()
    caught_up: set[tuple[str, int]] = set()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            reports |= {(beat.incarnation, copy.unit): copy for copy in beat.copies}
            caught_up |= {(unit, change.epoch) for unit, change in assigned.units().items() if _near(change, reports)}
        if one.partition.topic == TOPICS.assignments:
            before = assigned.units()
            for change in assigned.read(assignments.decode(one.value)):
                yield from _moved(before.get(change.unit), change, caught_up)


def _near(change: Change, reports: Mapping[tuple[str, str], CopyState]) -> bool:
    """True if reports of both copies say that the new one is as far as the leader; a driver's, that it has
    rehearsed.
    """
    if change.arriving is None:
        return False
    new, old = (reports.get((copy.incarnation, change.unit)) for copy in (change.arriving, change.copies[0]))
    if new is None or new.epoch < change.epoch:
        return False
    if "/spark-" in change.unit:
        return new.state == "synced"
    return old is not None and (new.state, new.batch >= old.batch - NEAR) == ("running", True)


def _moved(before: Change | None, after: Change, caught_up: set[tuple[str, int]]) -> Iterator[str]:
    if before is None or not after.copies:
        return
    if before.arriving is None and after.arriving is not None:
        gone = {copy.worker for copy in before.copies} - {copy.worker for copy in after.copies}
        if gone:
            yield f"move: {after.unit}#{after.epoch} lets {sorted(gone)} go before the new copy has caught up"
    if _handed_over(before, after) and (after.unit, before.epoch) not in caught_up:
        yield f"move: {after.unit}#{after.epoch} is handed to a copy that has not caught up"


def _handed_over(before: Change | None, after: Change) -> bool:
    """And not because the leader had failed."""
    arriving = None if before is None else before.arriving
    asked = after.reason.startswith(Sign.ARRIVED.value)
    return asked and arriving is not None and after.committer is not None and after.committer.worker == arriving.worker


def balance(written: list[Written]) -> Iterator[str]:
    """Units that move for balance alone never come back to where they all were."""
    assigned, active, seen = Assigned(), dict[str, str](), set[tuple[tuple[str, str], ...]]()
    for one in written:
        if one.partition.topic != TOPICS.assignments:
            continue
        before = assigned.units()
        for change in assigned.read(assignments.decode(one.value)):
            was, runs_on = before.get(change.unit), "" if change.committer is None else change.committer.worker
            if active.get(change.unit, "") == runs_on:
                continue
            active[change.unit] = runs_on
            placed = tuple(sorted(active.items()))
            if was is None or not _handed_over(was, change) or not was.reason.startswith(Sign.OVERFULL.value):
                seen = set()  # other workers are overfull now
            elif placed in seen:
                yield f"balance: all units are where they were before {change.unit}#{change.epoch} moved"
            seen.add(placed)


def named_copies(written: list[Written]) -> Iterator[str]:
    """A copy runs at an epoch at which a valid change names its worker's incarnation."""
    named_at = {
        (unit, change.epoch, copy.incarnation)
        for unit, known in _changes(written).items()
        for _, change in known
        for copy in change.copies
    }
    for one in written:
        if one.partition.topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            for copy in beat.copies:
                if copy.epoch and (copy.unit, copy.epoch, beat.incarnation) not in named_at:
                    yield f"copy: {beat.worker} has {copy.unit} at epoch {copy.epoch}, where it holds none"
                    return


def takeovers(cluster: Cluster, generations: list[Generation]) -> Iterator[str]:
    """Checks that a fenced holder takes the id again only if, as of then or since, it is named to commit: PROTOCOL
    9.
    """
    changes = _changes(cluster.broker.written)
    units = {
        generation.topics.transactional_id(unit.name): unit_key(NAME, generation.plan.generation, unit.name)
        for generation in generations
        for unit in generation.plan.units
    }
    refused: dict[tuple[str, str], int] = {}
    for one in cluster.broker.holdings:
        key = (one.author, one.transactional_id)
        if one.refused:
            refused[key] = one.seen
        elif (since := refused.pop(key, None)) is not None:
            known = changes[units[one.transactional_id]]
            before = [change for place, change in known if place < since][-1:]
            later = [change for place, change in known if since <= place < one.seen]
            if not any(c.incarnation == one.author and c.flags.commit for x in (*before, *later) for c in x.copies):
                yield f"fenced: {one.author} took {one.transactional_id} again though another copy led"
