"""Which queries are available: those whose units run, and after a failure those that are as fast as before it."""

from __future__ import annotations

from holdfast.schemas.costs import Costs
from holdfast.schemas.plans import QueryState
from holdfast.services.controller.core.availability import GRACE_MS, NEVER_MS, WINDOW_MS, Availability

NEEDED = {"fine": frozenset({"s", "a"}), "poor": frozenset({"s", "b"})}
SINKS = {"fine": frozenset({"a"}), "poor": frozenset({"b"})}


class Watched:
    """Two queries of one source: each second their sinks report ten batches that took 100 ms, unless it is said."""

    def __init__(self, before_ms: dict[str, float] | None = None) -> None:
        self.availability = Availability(NEEDED, SINKS)
        if before_ms:
            self.availability.knows(QueryState(query, True, 1, before_ms=ms) for query, ms in before_ms.items())
        self.now_ms = 1_700_000_000_000
        self.leaders = {unit: (unit, "1") for unit in "sab"}
        self.gone: set[str] = set()
        self.counts = dict.fromkeys("ab", (0, 0))
        self.said: list[tuple[str, bool]] = []

    def lives(self, seconds: int, waits_ms: int = 0, **latency_ms: int) -> Watched:
        """waits_ms: at `b`, for what is not out yet."""
        for _ in range(seconds):
            self.now_ms += 1_000
            for unit in [unit for unit in "ab" if unit not in self.gone]:
                count, ms = self.counts[unit]
                self.counts[unit] = count, ms = count + 10, ms + 10 * latency_ms.get(unit, 100)
                waits = self.now_ms - waits_ms if waits_ms and unit == "b" else 0
                costs = Costs(unit, latencies=count, latency_ms=ms, waits_since_ms=waits)
                self.availability.read(unit, self.leaders[unit], costs, self.now_ms)
            leaders = {unit: None if unit in self.gone else leader for unit, leader in self.leaders.items()}
            changed = self.availability.look(leaders, self.now_ms)
            self.said += [(one.query, one.available) for one in changed]
        return self

    def again(self, unit: str) -> None:
        """It has another leader, which counts from 0."""
        self.leaders[unit] = (unit, str(int(self.leaders[unit][1]) + 1))
        self.counts[unit] = (0, 0)
        self.gone.discard(unit)

    def available(self) -> list[str]:
        return [one.query for one in self.availability.states() if one.available]

    def catching_up(self) -> list[str]:
        return [one.query for one in self.availability.states() if one.catching_up]

    def relative(self, query: str) -> float | None:
        return next(one.relative for one in self.availability.states() if one.query == query)


def test_a_query_is_available_once_all_that_it_needs_runs() -> None:
    watched = Watched()
    watched.gone = {"b"}
    assert watched.lives(2).available() == ["fine"]
    watched.gone = set()
    assert watched.lives(1).available() == ["fine", "poor"]
    assert watched.said == [("fine", True), ("poor", False), ("poor", True)]


def test_after_a_failure_it_is_available_when_it_is_as_fast_as_before() -> None:
    """The definition: the mean of 10 s is below 1.2 times the latency before."""
    watched = Watched().lives(20)
    watched.gone = {"b"}
    assert watched.lives(30).available() == ["fine"]
    assert watched.catching_up() == []
    watched.again("b")
    assert watched.lives(3, b=5_000).available() == ["fine"]
    assert watched.catching_up() == ["poor"]
    assert watched.relative("poor") == 50.0
    assert watched.lives(6).available() == ["fine"], "what came late is in the mean"
    assert watched.lives(WINDOW_MS // 1000).available() == ["fine", "poor"]
    assert watched.relative("poor") == 1.0


def test_a_query_that_did_not_fail_is_judged_too_while_others_are_gone() -> None:
    watched = Watched().lives(20)
    watched.gone = {"b"}
    assert watched.lives(20, a=140).available() == ["fine"], "nearly as fast, and it was back"
    assert watched.lives(20, a=160).available() == []
    assert watched.lives(20, a=130).available() == [], "not fast enough to come back"
    assert watched.lives(20).available() == ["fine"]


def test_a_query_without_rows_since_its_unit_runs_again_is_not_yet_available() -> None:
    watched = Watched().lives(20)
    watched.gone = {"b"}
    watched.lives(2)
    watched.again("b")
    leaders = dict(watched.leaders)
    watched.now_ms += 1_000
    watched.availability.look(leaders, watched.now_ms)
    assert watched.available() == ["fine"]
    watched.availability.look(leaders, watched.now_ms + WINDOW_MS)
    assert watched.available() == ["fine", "poor"], "there may be nothing to bring"


def test_heartbeats_that_come_late_once_are_no_failure() -> None:
    watched = Watched().lives(20)
    silent = dict.fromkeys(watched.leaders)
    assert watched.availability.look(silent, watched.now_ms + GRACE_MS - 1) == []
    assert not watched.availability.failing
    assert len(watched.availability.look(silent, watched.now_ms + GRACE_MS)) == 2


def test_without_a_failure_there_is_nothing_to_compare_with() -> None:
    watched = Watched().lives(20)
    assert watched.lives(60, a=300).available() == ["fine", "poor"]


def test_another_leader_is_a_failure_that_nobody_saw() -> None:
    watched = Watched().lives(20)
    watched.again("b")
    assert watched.lives(1, b=2_000).available() == ["fine"]


def test_measurements_between_a_failure_and_its_discovery_do_not_count_as_before_it() -> None:
    watched = Watched().lives(3).lives(2, b=10_000)
    watched.gone = {"b"}
    watched.lives(1)
    assert [one.before_ms for one in watched.availability.states()] == [100.0, 100.0]


def test_waiting_records_count_although_no_row_comes() -> None:
    watched = Watched().lives(20)
    watched.gone = {"a"}
    watched.lives(1)
    assert watched.lives(3, waits_ms=20_000).available() == []


def test_a_query_that_stays_slower_is_available_again_some_time() -> None:
    watched = Watched().lives(20)
    watched.again("b")
    assert watched.lives(NEVER_MS // 1000 - 10, b=200).available() == ["fine"]
    assert watched.lives(20, b=200).available() == ["fine", "poor"]


def test_another_controller_compares_with_what_was_published() -> None:
    watched = Watched({"fine": 100.0, "poor": 100.0})
    watched.gone = {"a"}
    watched.lives(5)
    watched.again("a")
    assert watched.lives(5, a=4_000).available() == ["poor"]
    assert watched.lives(WINDOW_MS // 1000).available() == ["fine", "poor"]


def test_nothing_that_was_counted_before_anybody_listened_counts() -> None:
    watched = Watched()
    watched.counts["a"] = (1_000, 10_000_000)
    assert [one.latency_ms for one in watched.lives(2).availability.states()] == [100.0, 100.0]
