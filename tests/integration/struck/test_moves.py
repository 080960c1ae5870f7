"""Units move on a real cluster under load, by SIGTERM to their worker and by `holdfast move`: every row is exact.

How long a move takes and how long its unit is silent is recorded with the test (`record_property`), not bounded: on a
machine with much to do neither says anything of the product. What may happen on the way is held on the memory log, in
tests/scenario/test_moves.py.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.support.commands import DEADLINE_S
from tests.support.struck import Struck, StruckJob, running, tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
UNIT = "totals-0"
LEAVING = f"{Sign.PRIMARY_LEAVING.value}: {Move.BEGIN.value}"
ASKED = f"{Sign.MOVE_ASKED.value}: {Move.BEGIN.value}"
HANDED = (Move.HAND_OVER.value, Move.HAND_OVER_ALONE.value)
REFUSED = {
    (UNIT, "worker-9"): "there is no worker 'worker-9': one of",
    ("totals-9", "worker-1"): "has no unit 'totals-9': one of",
}
TRIES = 4
"""On a slow machine a unit may be switched just as it is to move, or its new copy falls silent for a moment: then the
unit stays, as the table has it, and the test asks again. Rows are compared after all tries."""


def silence_ms(struck: Struck, job: StruckJob, since_ms: int) -> int:
    """The longest pause between two results of any partition since then."""
    pauses = [0]
    for index in (0, 1):
        found = struck.cluster.log.scan(Partition(f"{job.name}-totals", index))
        times = [at for at in (message.timestamp()[1] for message in found) if at >= since_ms]
        pauses += [after - before for before, after in pairwise(times)]
    return max(pauses)


@pytest.mark.parametrize("scheme", ["hybrid", pytest.param("passive-hot", marks=pytest.mark.long)])
def test_a_worker_that_gets_sigterm_hands_its_units_over_before_it_ends(
    struck: Struck, scheme: str, record_property: Callable[[str, object], None]
) -> None:
    with running(struck, tolerant(scheme), f"sigterm-{scheme}") as job:
        for _ in range(TRIES):
            primary, _, epoch = job.pair(UNIT)
            job.await_results()
            since_ms = int(time.time() * 1000)
            os.kill(struck.pid(primary.worker), signal.SIGTERM)
            job.under_load(lambda gone=primary: _left(struck, job, gone.incarnation), "it has no unit any more")  # type: ignore[misc]
            job.await_results()
            record_property("silence_ms", silence_ms(struck, job, since_ms))
            job.under_load(struck.protected, "every unit is protected again, and the worker is back")
            reasons = struck.reasons(UNIT, epoch)
            if LEAVING in reasons and reasons[reasons.index(LEAVING) + 1].endswith(HANDED):
                return
        raise AssertionError(f"not once handed over: {struck.told()}")


def _left(struck: Struck, job: StruckJob, incarnation: str) -> bool:
    return all(incarnation not in {copy.incarnation for copy in struck.change(unit).copies} for unit in job.units)


@pytest.mark.long
def test_holdfast_move_moves_a_unit_to_any_worker_and_back_and_refuses_what_there_is_not(
    struck: Struck, record_property: Callable[[str, object], None]
) -> None:
    with running(struck, tolerant("hybrid"), "asked") as job:
        for words, wrong in REFUSED.items():
            refused = struck.command("move", job.name, *words)
            _, said = refused.communicate(timeout=DEADLINE_S)
            assert refused.returncode == 2
            assert wrong in " ".join(said.replace("│", " ").split())
        first, second, _ = job.pair(UNIT)
        third = ({"worker-1", "worker-2", "worker-3"} - {first.worker, second.worker}).pop()
        for to in (third, second.worker, first.worker):
            answer = _moved(struck, job, to)
            record_property(f"to {to}", answer)
            assert struck.leader_of(UNIT) == to or answer["moved"]
            job.under_load(struck.protected, "every unit is protected")
        assert ASKED in struck.reasons(UNIT, 0)
        assert {one.kind for one in struck.events() if one.job == job.name} >= {"move-begins", "move-done"}


def _moved(struck: Struck, job: StruckJob, to: str) -> dict[str, object]:
    """What the command says; asked again where the machine was too slow for a copy."""
    for _ in range(TRIES):
        asked = struck.command("move", job.name, UNIT, to, "--json", "--timeout", f"{DEADLINE_S:g}")
        job.under_load(lambda one=asked: one.poll() is not None, "it answers")  # type: ignore[misc]
        said, _ = asked.communicate()
        if asked.returncode == 0:
            return dict(json.loads(said))
    raise AssertionError(said)
