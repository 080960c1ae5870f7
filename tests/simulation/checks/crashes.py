"""Units whose work ends workers: quarantine, and the wait of a suspect."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.heartbeats import Exit, Heartbeat
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.unit.facts.crashes import Crashes
from holdfast.services.recovery.core.unit.rules.blame import SUSPECT_US
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS

GRACE_US = 1_000_000
"""By so much less than SUSPECT_US a suspect waits here: processes read what is written a little later."""
GONE = (Sign.PRIMARY_GONE.value, Sign.BOTH_GONE.value, Sign.TURN.value)


def quarantines(written: list[Written]) -> Iterator[str]:
    """A unit is put in quarantine once three workers in a row have ended at one batch of it, and stays there."""
    crashes, enough = dict[str, tuple[int, int]](), set[tuple[str, int]]()
    counted, ended, assigned = set[tuple[str, str]](), set[str](), Assigned()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats:
            beat = heartbeats.decode(one.value)
            if isinstance(beat, Exit) and beat.at and (beat.worker, beat.incarnation) not in counted:
                counted.add((beat.worker, beat.incarnation))
                for at in beat.at:
                    batch, count = crashes.get(at.unit, (at.batch, 0))
                    crashes[at.unit] = at.batch, count + 1 if batch == at.batch else 1
                    enough |= {(at.unit, at.batch)} if crashes[at.unit][1] >= 3 else set()
            elif isinstance(beat, Heartbeat):
                for copy in beat.copies:
                    if copy.batch >= crashes.get(copy.unit, (copy.batch + 1, 0))[0]:
                        del crashes[copy.unit]
        elif one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                if change.deadly is not None and (change.unit, change.deadly.batch) not in enough:
                    yield f"quarantine: {change.unit} at batch {change.deadly.batch}, which has not ended three workers"
                if change.unit in ended and change.copies:
                    yield f"quarantine: {change.unit}#{change.epoch} has copies again"
                ended |= {change.unit} if change.deadly is not None else set()


def suspects(written: list[Written]) -> Iterator[str]:
    """A unit whose work ended a worker is given to no other one while another unit has lost a copy by that."""
    crashes, ended, assigned = Crashes(), dict[str, tuple[str, str]](), Assigned()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats:
            beat = heartbeats.decode(one.value)
            if isinstance(beat, heartbeats.Echo):
                continue
            crashes.read(beat, one.time_us)
            if isinstance(beat, Exit):
                ended |= {at.unit: (beat.worker, beat.incarnation) for at in beat.at}
        elif one.partition.topic == TOPICS.assignments:
            before = dict(assigned.units())
            for change in assigned.read(assignments.decode(one.value)):
                crash = crashes.of(change.unit)
                lately = crash is not None and crash.by_itself and one.time_us - crash.since_us < SUSPECT_US - GRACE_US
                if not lately or not change.copies or not change.reason.startswith(GONE):
                    continue
                lost = [
                    unit
                    for unit, known in before.items()
                    if unit != change.unit
                    and crashes.of(unit) is None
                    and any((copy.worker, copy.incarnation) == ended[change.unit] for copy in known.copies)
                ]
                if lost:
                    yield f"suspect: {change.unit}#{change.epoch} ended a worker by itself, and did not wait for {lost}"
