"""Bugs of an update are seen: a switch before all is complete, a unit that is behind, two generations that deliver."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import msgspec
import pytest

from holdfast.schemas.cuts import TaskCuts
from holdfast.schemas.plans import SourcePlan
from holdfast.schemas.savepoints import Piece, Start
from holdfast.services.client.followed_state import FollowedState
from holdfast.services.client.holding import Holding
from holdfast.services.controller.core.job import Job
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.planning import seeding
from tests.simulation.mutants.bug import Bug, method
from tests.support.update_histories import History, Wrong
from tests.unit.client.test_savepoints import SMALL, Site, feed, flights

SEEDS = 12


@method(Holding, "_behind")
def switched_before_complete(_: Callable[..., list[str]], self: Holding, batch: int) -> list[str]:
    """The state is carried over before every unit has a checkpoint of the batch."""
    return []


@method(FollowedState, "rest")
def rest_of_any_batch(_: Callable[..., Iterator[Piece]], self: FollowedState, batch: int) -> Iterator[Piece]:
    yield from self.changes()
    for one in self._units:
        yield from one.whole(at_once=False)


@method(seeding, "_on")
def one_unit_is_behind(
    true: Callable[..., TaskCuts], batch: int, source: SourcePlan, index: int, known: Mapping[int, TaskCuts]
) -> TaskCuts:
    """A source task reads its last record once more."""
    found = true(batch, source, index, known)
    ranges = tuple(msgspec.structs.replace(r, start=max(r.start - 1, 0), stop=max(r.stop - 1, 0)) for r in found.ranges)
    return msgspec.structs.replace(found, ranges=ranges) if index == 0 else found


@method(Job, "holds_for")
def two_generations_deliver(_: Callable[..., bool], self: Job, start: Start) -> bool:
    """A generation takes over from one that somebody has resumed."""
    return start.replaces == self.generation


def found(seeds: int) -> str:
    """The first thing that a history finds wrong; empty: none does."""
    for seed in range(seeds):
        try:
            History(seed).run(3)
        except (Wrong, HoldfastError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "bugs",
    [(switched_before_complete, rest_of_any_batch), (one_unit_is_behind,)],
    ids=lambda bugs: bugs[0].__name__,
)
def test_a_bug_of_an_update_is_seen(bugs: tuple[Bug, ...]) -> None:
    with ExitStack() as active:
        for bug in bugs:
            active.enter_context(bug())
        assert found(SEEDS)


def test_two_generations_that_deliver_are_seen() -> None:
    site = Site(SMALL)
    feed(site, 0, 30)

    def resume() -> None:
        site.ask("resume")
        site.cluster.feed("given", [[json.dumps(one).encode() for one in flights(30, 60)]], 30)
        site.cluster.until(lambda: site.cluster.all_taken() or None)
        site.run.advance(1)

    with two_generations_deliver():
        site.update(site.raw, before=resume)
        site.cluster.until(lambda: site.cluster.all_taken() or None)
        site.run.advance(1)
    totals = Counter((row["carrier"], row["n"]) for row in site.run.rows("totals").to_dicts())
    assert max(totals.values()) == 2, "rows of both generations"
