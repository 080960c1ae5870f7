"""Violations by the checker of backup groups: a decision is held against what its replica could know."""

from __future__ import annotations

import pytest

from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags
from holdfast.schemas.decided import Id
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics, Partition
from tests.simulation.checks.standbys import READ_WITHIN_US, check
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS

PLAN = Plan("j", "0-a", Id("c", 1), {}, (), (), (), (), {}, 10, {})
ASSIGNMENTS, HEARTBEATS = Partition(TOPICS.assignments, 0), Partition(TOPICS.heartbeats, 0)
STANDBY = Flags(process=False, send=False, commit=False)
DECIDED_US = 5_000_000


def placed(at_us: int, unit: str, epoch: int, workers: str, reason: str = "") -> Written:
    primary, *standbys = workers.split()
    copies = Copy(primary, "1", PRIMARY), *(Copy(name, "1", STANDBY) for name in standbys)
    change = Change(f"j@0-a/{unit}", epoch, copies, "passive-hot", reason)
    return Written(at_us, "recovery", ASSIGNMENTS, 0, assignments.encode(Assignment("recovery", 0, (change,))), ())


def beats(at_us: int) -> list[Written]:
    each = (Heartbeat(name, "1", 0, slots=20) for name in ("w0", "w1", "w2"))
    return [Written(at_us, beat.worker, HEARTBEATS, 0, heartbeats.encode(beat), ()) for beat in each]


@pytest.mark.parametrize(("later_us", "wrong"), [(READ_WITHIN_US // 2, False), (2 * READ_WITHIN_US, True)])
def test_a_standby_goes_where_fewest_are_unless_that_is_so_since_a_moment_ago(later_us: int, wrong: bool) -> None:
    """The history: two of w0's standbys are on either peer. One replica has a unit's two copies change places, so that
    w1 backs one less; 2.6 ms later another replica, which has not read that, adds two standbys.
    """
    units = {"a": "w0 w1", "b": "w0 w1", "c": "w0 w2", "d": "w0 w2", "e": "w0", "f": "w0"}
    written = beats(0) + [placed(1, unit, 1, workers) for unit, workers in units.items()]
    written += [*beats(DECIDED_US), placed(DECIDED_US, "a", 2, "w1 w0")]
    added = ("e", "w0 w2"), ("f", "w0 w2")
    reason = "there is no secondary: a new secondary"
    written += [placed(DECIDED_US + later_us, unit, 2, workers, reason) for unit, workers in added]
    found = list(check(written, PLAN, JobTopics("sim", "j", "0-a"), None))
    assert [one.partition(":")[0] for one in found] == (["group"] if wrong else [])
