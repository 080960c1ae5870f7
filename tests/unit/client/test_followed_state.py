"""State that is followed while its job runs is, with all that came later, the state at which the job is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from holdfast.schemas.savepoints import Piece
from holdfast.services.client.followed_state import FollowedState
from holdfast.services.client.hold import Hold
from holdfast.services.client.savepoints import tasks_of
from holdfast.services.kernel.errors import CommandFailed
from tests.support.saved_site import SMALL, Site, feed

pytestmark = pytest.mark.slow

State = dict[tuple[str, str, bytes], bytes]


def put(state: State, pieces: Iterable[Piece]) -> int:
    """Returns the number of entries."""
    count = 0
    for piece in pieces:
        for key, value in piece.entries:
            count += 1
            if value is None:
                del state[piece.task, piece.table, key]
            else:
                state[piece.task, piece.table, key] = value
    return count


def holding(site: Site) -> Hold:
    def wait() -> None:
        site.cluster.turn(20)

    return Hold(site.door, site.plan, wait)


def at_rest(hold: Hold, batch: int) -> Iterator[Piece]:
    for unit, found in hold.states(batch):
        for _, _, pieces in tasks_of(unit, found):
            yield from pieces


def test_only_changes_come_later_and_windows_that_closed_are_gone() -> None:
    site = Site(SMALL)
    feed(site, 0, 100)
    site.run.advance(10)
    hold, state = holding(site), State()
    followed = FollowedState(hold, site.plan)
    base = put(state, followed.base())
    feed(site, 100, 200)
    site.run.advance(10)
    some = put(state, followed.changes())
    assert some > 0
    site.run.feed("given", [{"carrier": "D", "dest": "Z", "delay": 5, "at": f"2026-01-02T0{i}:00:00Z"} for i in (1, 2)])
    held = hold.hold(60)
    rest = put(state, followed.rest(held.batch))
    wanted = State()
    put(wanted, at_rest(hold, held.batch))
    assert state == wanted
    assert sum(task.entries for task in followed.tasks().values()) == len(wanted)
    assert (base > 0, rest > 0) == (True, True)
    assert not any(b"X" in key or b"Y" in key for _, table, key in state if table == "panes"), "their windows closed"


def test_a_log_that_was_trimmed_beyond_what_was_read_is_read_again_and_compared() -> None:
    site = Site(SMALL)
    feed(site, 0, 100)
    site.run.advance(10)
    hold, state = holding(site), State()
    followed = FollowedState(hold, site.plan)
    put(state, followed.base())
    read = {one.unit.name: one._next for one in followed._units}
    for first in range(100, 500, 50):
        feed(site, first, first + 50)
        site.run.advance(10)
    logs = {unit.name: hold.checkpoints(unit) for unit in site.plan.units}
    starts = hold.log.offsets([*logs.values()], "start")
    trimmed = [name for name, log in logs.items() if starts[log] > read[name]]
    assert any("totals" in name for name in trimmed)
    held = hold.hold(60)
    put(state, followed.rest(held.batch))
    wanted = State()
    put(wanted, at_rest(hold, held.batch))
    assert state == wanted
    assert sum(task.entries for task in followed.tasks().values()) == len(wanted)


def test_a_job_that_is_not_held_at_the_batch_is_refused() -> None:
    site = Site(SMALL)
    feed(site, 0, 30)
    hold = holding(site)
    followed = FollowedState(hold, site.plan)
    assert [*followed.base()]
    held = hold.hold(60)
    with pytest.raises(CommandFailed, match="has a checkpoint of batch"):
        list(followed.rest(held.batch + 1))
