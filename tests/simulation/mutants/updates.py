"""Deliberate bugs of updates: docs/decisions/0211, 0215."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from msgspec import structs

from holdfast.schemas.cuts import TaskCuts
from holdfast.schemas.plans import SourcePlan
from holdfast.schemas.savepoints import Piece, Start
from holdfast.services.client.followed_state import FollowedState
from holdfast.services.client.hold import Hold
from holdfast.services.controller.core.job import Job
from holdfast.services.planning import seeds
from tests.simulation.mutants.bug import method


@contextmanager
def switched_before_complete() -> Iterator[None]:
    """The state is carried over before every unit has a checkpoint of the batch."""

    def rest(self: FollowedState, batch: int) -> Iterator[Piece]:
        yield from self.changes()
        for one in self._units:
            yield from one.whole(at_once=False)

    with mock.patch.object(Hold, "_behind", return_value=[]), mock.patch.object(FollowedState, "rest", rest):
        yield


@method(seeds, "_on")
def one_unit_is_behind(
    true: Callable[..., TaskCuts], batch: int, source: SourcePlan, index: int, known: Mapping[int, TaskCuts]
) -> TaskCuts:
    """A source task reads its last record once more."""
    found = true(batch, source, index, known)
    ranges = tuple(structs.replace(r, start=max(r.start - 1, 0), stop=max(r.stop - 1, 0)) for r in found.ranges)
    return structs.replace(found, ranges=ranges) if index == 0 else found


@method(Job, "holds_for")
def two_generations_deliver(true: Callable[..., bool], self: Job, start: Start) -> bool:
    """A generation takes over from one that somebody has resumed."""
    return start.replaces == self.generation
