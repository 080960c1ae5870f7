"""Decision 0077: what two real copies report of the same batches is the same, or is not, as their bytes are.

They run side by side on a log in memory; one of them has versions that have yet to show equal bytes, as far as the
assignment says. Odd versions give other rows: tests/support/odd.py.
"""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import Flags
from holdfast.schemas.heartbeats import DID_NOTHING
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.worker.process.loop import Worker
from tests.support.memory_cluster import MemoryCluster
from tests.support.odd import ODD
from tests.support.raising import on

JOB = """
name: versions
keep_cuts: true
batch_interval_ms: 5
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 100}}
sources:
  s: {topic: in, fields: {k: string, x: int, at: timestamp}, event_time: at, unit: ms}
operators:
  odd: {python: "tests.support.odd:Odd", key: [k], input: s, params: {key: k, number: x, every: 5}}
  days: {aggregate: {n: "count()", total: "sum(x)"}, key: [k], input: s, window: {size_s: 86400}}
queries:
  odd: {input: odd, sink: {topic: odd-out}}
  days: {input: days, sink: {topic: days-out}}
placement: {units: [[s], [odd], [days]]}
"""
STANDBY = Rung.STANDBY.flags


def fed(cluster: MemoryCluster, first: int, count: int = 5) -> None:
    cluster.feed("s", ({"k": f"k{n % 3}", "x": n, "at": 1_000 * n} for n in range(first, first + count)))


def reports(worker: Worker) -> dict[str, dict[int, int]]:
    """Digests by batch, by unit."""
    return {copy.unit.partition("/")[2]: dict(copy.shows) for copy in worker.copies()}


class Sides:
    """A leader and a standby of all units; each takes its turns with versions of its own. seen: what each reported."""

    def __init__(self, odd: bool = False, unshown: bool = True) -> None:
        self.cluster = MemoryCluster(JOB)
        self.leader, self.standby = self.cluster.start("w1"), self.cluster.start("w2")
        self.odd = odd
        self.seen: dict[str, dict[str, dict[int, int]]] = {"w1": {}, "w2": {}}
        self.place([self.standby] if unshown else [])

    def place(self, unshown: list[Worker]) -> None:
        copies: list[Worker | tuple[Worker, Flags]] = [self.leader, (self.standby, STANDBY)]
        self.cluster.place(dict.fromkeys(self.cluster.units, copies), unshown)

    def turn(self, count: int) -> None:
        for _ in range(count):
            self.cluster.now_ms += 1
            self.leader.turn()
            with on(ODD if self.odd else ""):
                self.standby.turn()
            for name, worker in self.cluster.workers.items():
                for unit, digests in reports(worker).items():
                    self.seen[name].setdefault(unit, {}).update(digests)

    def run(self, records: int = 60) -> Sides:
        self.turn(100)
        for first in range(0, records, 5):
            fed(self.cluster, first)
            self.turn(15)
        self.turn(50)
        return self

    def differing(self) -> dict[str, list[int]]:
        """Batches of which both reported something else, by unit; all units have reported some in common."""
        found: dict[str, list[int]] = {}
        for unit, mine in self.seen["w1"].items():
            theirs = self.seen["w2"][unit]
            both = sorted(mine.keys() & theirs.keys())
            assert len(both) >= 8, f"{unit}: {sorted(mine)} and {sorted(theirs)}"
            busy = sum(mine[batch] != DID_NOTHING for batch in both)
            assert busy >= 8 or unit == "sink-days-0", f"{unit}: {busy}"
            found[unit] = [batch for batch in both if mine[batch] != theirs[batch]]
        return found


def test_two_copies_that_do_the_same_report_the_same() -> None:
    assert not any(Sides().run().differing().values())


def test_the_unit_whose_rows_differ_reports_so_and_no_other() -> None:
    found = Sides(odd=True).run().differing()
    assert [unit for unit, batches in found.items() if batches] == ["odd-0"], "others take in the frames of the leader"


def test_a_window_that_is_open_for_a_day_shows_what_it_holds() -> None:
    """It sends nothing meanwhile: all that can be compared is its state."""
    sides = Sides().run()
    assert sides.cluster.rows("days") == []
    assert len(set(sides.seen["w1"]["days-0"].values()) - {DID_NOTHING}) >= 8


def test_an_empty_stream_shows_nothing() -> None:
    sides = Sides()
    sides.turn(2_000)
    shown = [digests for one in sides.seen.values() for digests in one.values()]
    assert {digest for digests in shown for digest in digests.values()} == {DID_NOTHING}


def test_nothing_is_reported_where_all_have_shown_their_bytes() -> None:
    sides = Sides(unshown=False).run()
    assert not any(shown for one in sides.seen.values() for shown in one.values())


@pytest.mark.parametrize("late", [0, 30])
def test_a_copy_that_restores_a_checkpoint_reports_what_the_leader_does_of_the_batches_behind_it(late: int) -> None:
    sides = Sides().run(late)
    sides.cluster.kill("w2")
    sides.standby = sides.cluster.start("w2")
    sides.place([sides.standby])
    sides.seen = {"w1": {}, "w2": {}}
    assert not any(sides.run().differing().values())
