"""Workers, recovery replicas and the broker are killed and frozen under load: events show it, rows are exact.

The pure core's tests (tests/unit/recovery) hold every row of its tables; these hold that the same happens to processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from holdfast.schemas.assignments import Change, Copy
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.support.struck import Struck, running, tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
HYBRID = tolerant("hybrid")
UNIT = "totals-0"
TRANSACTION_S = 5.0
"""The time-out of a transaction (PROTOCOL 9); the broker looks for those that are over once a second."""
TRIES = 4
"""Where a test must meet a moment that it cannot choose. One bad try is no failure: rows are compared after all tries,
and whatever the units did instead has a row of the tables, and its own test."""


BACKLOG = 5_000
"""Numbers that a primary has missed when it wakes."""


def reason(sign: Sign, move: Move) -> str:
    return f"{sign.value}: {move.value}"


PROMOTED = reason(Sign.PRIMARY_GONE, Move.PROMOTE)
SWITCHED = reason(Sign.PRIMARY_SILENT, Move.SWITCH)
WELL = reason(Sign.PRIMARY_WELL, Move.SWITCH_BACK)
GONE = (Sign.BOTH_GONE.value, Sign.PRIMARY_GONE.value, Sign.SECONDARY_GONE.value)
PLACED = (
    reason(Sign.BOTH_GONE, Move.PLACE),
    reason(Sign.PRIMARY_GONE, Move.PLACE),
    reason(Sign.TURN, Move.RESTORE),
)
"""At once, after one of the two notices was read first, or in its turn: two workers are an incident."""


def promoted(struck: Struck, epoch: int) -> Callable[[], Change | None]:
    """The record after the epoch that gave the secondary its primary's place."""
    return lambda: struck.made(UNIT, epoch, PROMOTED)


def test_the_primary_is_killed_and_the_unit_continues_at_its_secondary(struck: Struck) -> None:
    with running(struck, HYBRID, "killed") as job:
        primary, secondary, epoch = job.pair(UNIT)
        struck.kill(primary.worker)
        change = job.under_load(promoted(struck, epoch), "the secondary is promoted")
        assert change.committer.worker == secondary.worker
        job.under_load(struck.protected, "every unit is protected again")

        def told(kind: str) -> list[Event]:
            mine = [one for one in struck.events() if (one.job, one.unit, one.kind) == (job.name, UNIT, kind)]
            return [one for one in mine if one.epoch > epoch]

        decided = job.under_load(lambda: [one for one in told("decided") if one.epoch == change.epoch], "an event")
        assert decided[0].phases_ms.keys() == {"detection"}

        def taken_over() -> list[Event]:
            return [one for one in told("unit-active") if one.worker == secondary.worker]

        active = job.under_load(taken_over, "its takeover is reported")
        assert active[0].phases_ms.keys() == {"activation", "replay", "first_output", "recovered"}


def test_the_primary_stalls_the_unit_continues_and_is_rolled_back_when_it_answers(struck: Struck) -> None:
    """Tried again if a busy machine silenced the secondary, too: then the primary leads at once, without a rollback."""
    with running(struck, HYBRID, "stalled") as job:
        for _ in range(TRIES):
            primary, secondary, epoch = job.pair(UNIT)
            with struck.frozen(primary.worker):
                job.until_stance(UNIT, Stance.SWITCHED)
                assert struck.leader_of(UNIT) == secondary.worker
                job.await_results()
            job.under_load(partial(rolled_back, struck, epoch), "it is rolled back")
            job.under_load(struck.protected, "every unit is protected again")
            reasons = struck.reasons(UNIT, epoch)
            assert SWITCHED in reasons
            if WELL in reasons:
                return
        raise AssertionError("each time the secondary fell silent before the primary was well")


def rolled_back(struck: Struck, epoch: int) -> bool:
    return any(one.endswith(Move.SWITCH_BACK.value) for one in struck.reasons(UNIT, epoch))


@pytest.mark.long
@pytest.mark.parametrize("point", ["commit", "cut", "marker"])
def test_a_primary_wakes_after_its_promotion_with_something_in_hand_and_does_no_harm(
    struck: Struck, point: str
) -> None:
    """It froze just before it would have committed a transaction, proposed a cut, or written a marker.

    Only Kafka fences a transaction: in each run the next test wakes a primary that froze before its commit. A cut and
    a marker of a zombie are refused in the same way on a log in memory (tests/scenario/test_two_copies.py) and in the
    simulation.
    """
    with running(struck, tolerant("hybrid", fail_stop_s=1.5), f"zombie-{point}") as job:
        unit = "events-0" if point == "cut" else UNIT
        frozen = job.frozen_at(point, unit)

        def without_it() -> bool:
            return frozen not in {copy.worker for copy in struck.change(unit).copies}

        with struck.frozen(frozen, by_itself=True):
            job.under_load(without_it, "others lead, and it has no place any more")
            job.await_results()
        job.await_results()


@pytest.mark.parametrize(
    "scheme",
    ["hybrid", *(pytest.param(one, marks=pytest.mark.long) for one in ("active-standby", "active-replication"))],
)
def test_no_reader_waits_for_the_time_out_of_a_transaction_that_a_frozen_primary_left_open(
    struck: Struck, scheme: str
) -> None:
    """The copy that takes over fences it. Without the fence every try would take the whole time-out, so one quick try
    is proof; a busy machine may hold up any other. `bench zombie` measures how long readers wait. Whoever takes over
    fences, under every scheme alike.
    """
    with running(struck, tolerant(scheme), f"open-{scheme}") as job:
        results = [Partition(f"{job.name}-totals", index) for index in (0, 1)]

        def readable() -> int:
            """Results that read_committed readers get."""
            return sum(struck.cluster.log.offsets(results, "end").values())

        def more_than(known: int) -> Callable[[], bool]:
            return lambda: readable() > known

        for _ in range(TRIES):
            with struck.frozen(job.frozen_at("commit", UNIT), by_itself=True):
                more, since = more_than(readable()), time.monotonic()
                job.under_load(more, "readers get results")
                waited_s = time.monotonic() - since
            job.under_load(struck.protected, "every unit is protected again")
            if waited_s < TRANSACTION_S:
                return
        raise AssertionError(f"readers waited for {waited_s:.1f} s and more each time")


@pytest.mark.long
def test_both_copies_are_killed_together_and_the_unit_is_placed_from_the_checkpoint_log(struck: Struck) -> None:
    """Tried again if a new secondary was added between the two exit notices: then that one is promoted.

    In each run: local/test_incidents.py kills all workers at once, scenario/test_failures.py both copies.
    """
    with running(struck, HYBRID, "both") as job:
        for _ in range(TRIES):
            primary, secondary, epoch = job.pair(UNIT)
            struck.kill(primary.worker, secondary.worker)
            ended = {primary.incarnation, secondary.incarnation}
            job.under_load(partial(has_left, struck, ended), "others have the unit")
            if any(one.startswith(PLACED) for one in struck.reasons(UNIT, epoch)):
                return
        raise AssertionError("each time a new secondary was there before the other's end was reported")


def has_left(struck: Struck, ended: set[str]) -> bool:
    return lacks(struck.change(UNIT), ended)


def lacks(change: Change, ended: set[str]) -> bool:
    """No copy runs in these incarnations."""
    return not ended & {copy.incarnation for copy in change.copies}


@pytest.mark.long
def test_the_primary_is_killed_while_both_copies_work(struck: Struck) -> None:
    """It wakes with much to catch up with, and has yet to show that it is well. Tried again if it led again by then.

    In each run: the kill and the stall above, and the pair of both in unit/recovery/test_stories.py.
    """
    with running(struck, HYBRID, "both-work") as job:
        for _ in range(TRIES):
            primary, _, epoch = job.pair(UNIT)
            with struck.frozen(primary.worker):
                job.until_stance(UNIT, Stance.SWITCHED)
                job.feed(BACKLOG)
                job.await_results()
            job.await_results()
            struck.kill(primary.worker)
            job.under_load(struck.protected, "every unit is protected again")
            if (SWITCHED, PROMOTED) in pairwise(struck.reasons(UNIT, epoch)):
                return
        raise AssertionError("not once killed in time")


@pytest.mark.parametrize("killed", ["recovery-1", pytest.param("recovery-2", marks=pytest.mark.long)])
def test_a_recovery_replica_is_killed_during_a_takeover_and_nothing_changes(struck: Struck, killed: str) -> None:
    with running(struck, HYBRID, f"{killed}-dies") as job:
        primary, secondary, epoch = job.pair(UNIT)
        struck.kill(primary.worker, killed)
        change = job.under_load(promoted(struck, epoch), "the secondary is promoted")
        assert change.committer.worker == secondary.worker


@pytest.mark.long
def test_a_recovery_replica_that_starts_late_agrees_and_takes_over_alone(struck: Struck) -> None:
    """It may know nothing of the primary when it starts, or find it silent first: the secondary leads anyway.
    In each run: scenario/test_failures.py holds it on a log in memory.
    """
    with running(struck, HYBRID, "late") as job:
        struck.kill("recovery-1")
        with struck.frozen("recovery-2"):
            primary, secondary, epoch = job.pair(UNIT)
            struck.kill(primary.worker)
            change = job.under_load(without(struck, epoch, primary), "the primary is replaced")
            assert change.committer.worker == secondary.worker
            job.under_load(struck.protected, "every unit is protected again")
            assert struck.authors(UNIT, epoch) == {"recovery-1"}
        primary, secondary, epoch = job.pair(UNIT)
        job.await_results()
        struck.kill(primary.worker)
        change = job.under_load(without(struck, epoch, primary), "the primary is replaced")
        assert change.committer.worker == secondary.worker


def without(struck: Struck, epoch: int, ended: Copy) -> Callable[[], Change | None]:
    """The first record after the epoch in which that incarnation has no copy."""
    return lambda: next((one for one in struck.changes(UNIT, epoch) if lacks(one, {ended.incarnation})), None)


def test_the_broker_restarts_and_nobody_is_taken_for_dead(struck: Struck) -> None:
    with running(struck, HYBRID, "broker") as job:
        before = {unit: struck.change(unit) for unit in job.units}
        struck.restart_kafka()
        job.await_results()
        job.under_load(struck.protected, "every unit is protected")
        for unit, one in before.items():
            assert _runs(struck.change(unit)) == _runs(one), f"{unit}: a role may pass on and back, a copy stays"
        reasons = [why for unit, one in before.items() for why in struck.reasons(unit, one.epoch)]
        assert not [why for why in reasons if why.startswith(GONE)], "a slow machine makes silent, never dead"


def _runs(change: Change) -> list[tuple[str, str]]:
    """Primary and secondary, as (worker, incarnation)."""
    return [(copy.worker, copy.incarnation) for copy in change.copies]
