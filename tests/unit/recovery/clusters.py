"""Clusters in which a unit stands in a known way, for tests of its table and of its stories."""

from __future__ import annotations

from typing import Any

from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.unit.recovery.workers import NEW, Worker
from tests.unit.recovery.world import World, plan

T, S = Stance, Sign


def cluster(scheme: str = "hybrid", **tolerance: Any) -> World:
    """Three workers in three zones; the unit's primary on w1, its secondary, if any, on w2."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    return World(*workers, made=plan({"u-0": scheme}, **tolerance)).start().settle()


def switched(**tolerance: Any) -> World:
    world = cluster(**tolerance)
    world.stall("w1")
    return world.until(T.SWITCHED)


def behind(**tolerance: Any) -> World:
    """The primary answers, but has not caught up."""
    world = switched(**tolerance)
    world.workers["w1"].slow = True
    world.stall("w1", False)
    return world.run(0.5)


def moving(**tolerance: Any) -> World:
    """The new copy on w3 does not catch up."""
    world = cluster(**tolerance)
    world.workers["w3"].slow = True
    world.move("w3")
    return world.until(T.MOVING)


def shared() -> World:
    """The only place for a standby is taken; u-0 is more important, and has none yet."""
    workers = Worker("w1", "z1", standbys=0), Worker("w2", "z2", standbys=1)
    made = plan({"u-0": "none", "u-1": "hybrid"}, priorities={"u-0": 2, "u-1": 1})
    return World(*workers, made=made).start().settle()


def reassigning(scheme: str = "hybrid", **tolerance: Any) -> World:
    """The new standby on w3 does not get its operators loaded."""
    world = cluster(scheme, **tolerance)
    world.workers["w3"].loads = False
    world.back("w3")
    return world.until(T.REASSIGNING)


def mixed(version: str = NEW, seconds: float = 0.3) -> World:
    """The secondary is on w2, with other versions than the primary, and has yet to show what it gives; w3 is away."""
    world = cluster()
    world.kill("w3")
    world.upgrade("w2", version)
    return world.until(T.ALONE).until(T.NORMAL).run(seconds)


def moving_mixed(version: str = NEW) -> World:
    """The unit moves to w2, which has other versions."""
    world = cluster("none")
    world.upgrade("w2", version)
    world.run(0.3).move("w2")
    return world.until(T.MOVING)


def loaded(scheme: str) -> World:
    """Four units, all on w1, and balance is on."""
    workers = [Worker(f"w{number}", f"z{number}") for number in (1, 2, 3)]
    made = plan({f"u-{index}": scheme for index in range(4)}, rebalance_period_s=20)
    return World(*workers, made=made, calm_us=1_000_000).start().settle()


def story(world: World) -> list[str]:
    """Since the unit was protected first."""
    return world.story[3:]
