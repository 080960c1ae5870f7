"""The incident of the paper on the model, whose decisions are those of the cores: the staircase, and how fast it is."""

from __future__ import annotations

from bench.model.hashtags import LOST, READS, STAIRCASE, WORKERS, best
from bench.model.incident import Outage, steps

EACH_MS = 8_000


def outage(gradual: bool) -> Outage:
    return Outage([EACH_MS * (at + 1) for at in range(LOST)], gradual).run(EACH_MS * LOST + 45_000)


def test_queries_come_back_in_the_papers_staircase() -> None:
    made = outage(gradual=True)
    assert steps(made.looks, "restored") == list(STAIRCASE)
    assert steps(made.looks, "available") == list(STAIRCASE)
    assert made.looks[-1].relative < 1.2


def test_under_blocking_recovery_they_come_back_together_and_later() -> None:
    made = outage(gradual=False)
    assert steps(made.looks, "restored") == [len(READS)]
    assert min(at_ms for at_ms, _ in made.back.values()) > EACH_MS * LOST


def test_the_staircase_is_the_best_that_fits() -> None:
    assert tuple(best(count) for count in range(1, LOST + 1)) == STAIRCASE
    assert WORKERS - LOST == 2
