"""A process near its limit of memory ends itself, and says whose work has filled it."""

from __future__ import annotations

from holdfast.schemas.heartbeats import At
from holdfast.services.hosting.memory import MIB, Memory
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.hosting.traces import BYTES, Traces, read
from holdfast.services.hosting.watchdog import Watchdog

GREEDY, MODEST = "j@1-abcdef/greedy-0", "j@1-abcdef/modest-0"


class Sizes:
    """Resident memory as it is told, MiB."""

    def __init__(self, mib: int) -> None:
        self.mib = mib

    def __call__(self) -> int:
        return self.mib * MIB


def test_near_its_limit_it_ends_and_names_the_unit_at_whose_work_it_has_grown_most() -> None:
    sizes = Sizes(200)
    memory = Memory(1_000, sizes)
    for mib, unit in ((300, MODEST), (500, GREEDY), (650, GREEDY), (640, MODEST), (899, "")):
        sizes.mib = mib
        assert memory.look(unit) == ""
    sizes.mib = 900
    assert memory.look(MODEST) == (
        "its memory is 900 MiB, near the limit HOLDFAST_MEMORY_MB=1000, most of what it has grown by at the work of "
        f"{GREEDY}"
    )


def test_memory_that_is_given_back_is_not_held_against_a_unit() -> None:
    sizes = Sizes(200)
    memory = Memory(1_000, sizes)
    for mib, unit in ((800, MODEST), (250, MODEST), (400, GREEDY)):
        sizes.mib = mib
        memory.look(unit)
    assert memory.grower == GREEDY


def test_without_a_limit_nobody_looks() -> None:
    memory = Memory(0, lambda: 1 // 0)
    assert memory.look(GREEDY) == ""


def test_the_watchdog_ends_the_process_and_leaves_the_grower_as_its_trace() -> None:
    page, sizes, ended = memoryview(bytearray(BYTES)), Sizes(200), list[str]()
    doing = PresentWork(Traces(page))
    dog = Watchdog(doing, 5.0, set, ended.append, lambda: 0.0, Memory(1_000, sizes))
    with doing.of(GREEDY):
        sizes.mib = 800
        dog.look()
    assert not ended
    with doing.of(MODEST), doing.traces.runs(MODEST, 7):
        sizes.mib = 950
        dog.look()
        doing.traces.runs(MODEST, 8)
        assert read(page) == (At(GREEDY, 0, "filling memory with"),), "what the loop still does changes nothing"
    assert len(ended) == 1
