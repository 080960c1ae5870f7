"""A loop that hangs is found by a thread beside it; one that is slow, cold or stopped with its whole process is not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field

from holdfast.schemas.heartbeats import Turn
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.hosting.watchdog import COLD, ENDS, HUNG_STATUS, Watchdog

PATIENCE_S = 2.0
LOOK_MS = 100.0


@dataclass
class Loop:
    """A loop whose clock is stopped unless waited."""

    doing: PresentWork = field(default_factory=PresentWork)
    states: set[str] = field(default_factory=lambda: {"running"})
    now_ms: float = 0.0
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.doing.warmed("j@1/u")
        self.dog = Watchdog(self.doing, PATIENCE_S, lambda: self.states, self.ended.append, lambda: self.now_ms)

    def wait(self, ms: float) -> Loop:
        """The watchdog looks as often as it does."""
        for _ in range(round(ms / LOOK_MS)):
            self.now_ms += LOOK_MS
            self.dog.look()
        return self

    def stuck(self) -> bool:
        return self.dog.turn is not None and self.dog.turn.stuck


def test_a_turn_beyond_the_patience_is_stuck_and_says_in_which_unit() -> None:
    loop = Loop()
    with loop.doing.of("j@1/u"):
        assert loop.wait(900).dog.turn is None
        assert loop.wait(1_000).dog.turn == Turn(1_900, 2_000, "j@1/u")
        assert not loop.stuck()
        assert loop.wait(200).stuck()
    assert str(loop.dog.turn) == "stuck for 2.1 s", "the loop itself is at no unit any more"
    loop.doing.turned()
    assert loop.wait(LOOK_MS).dog.turn is None


def test_the_process_ends_after_twice_the_patience() -> None:
    loop = Loop()
    assert not loop.wait(PATIENCE_S * ENDS * 1000).ended
    assert loop.wait(LOOK_MS).ended == ["its loop is stuck for 4.1 s"]


def test_a_loop_that_turns_is_never_stuck_however_long_it_lives() -> None:
    loop = Loop()
    for _ in range(100):
        loop.doing.turned()
        assert not loop.wait(1_500).stuck()
    assert not loop.ended


def test_a_copy_that_is_loaded_or_restored_or_does_its_first_batch_has_more_time() -> None:
    for states, unit in (({"deploying"}, ""), ({"running", "restoring"}, "j@1/u"), ({"running"}, "j@1/cold")):
        loop = Loop(states=states)
        with loop.doing.of(unit):
            assert not loop.wait(PATIENCE_S * COLD * 1000).stuck(), (states, unit)
            assert loop.wait(LOOK_MS).stuck(), (states, unit)


def test_a_turn_that_began_cold_stays_so() -> None:
    """The copy was loaded beside the loop while the loop hung: a process with so much to do is slow."""
    loop = Loop(states={"deploying"}).wait(5_000)
    loop.states = {"running"}
    assert not loop.wait(2_000).stuck()


def test_a_process_that_was_stopped_did_not_hang() -> None:
    loop = Loop().wait(1_000)
    loop.now_ms += 60_000
    loop.wait(LOOK_MS)
    assert not loop.stuck()
    assert not loop.ended


def test_work_within_work_leaves_the_outer_unit() -> None:
    doing = PresentWork()
    with doing.of("outer"):
        with doing.of("inner"):
            assert doing.unit == "inner"
        assert doing.unit == "outer"
    assert doing.unit == ""


def test_a_process_that_hangs_ends_and_says_where_every_thread_stood() -> None:
    program = (
        "import threading\n"
        "from holdfast.services.hosting.present_work import PresentWork\n"
        "from holdfast.services.hosting.watchdog import Watchdog\n"
        "def hangs_here():\n"
        "    threading.Event().wait()\n"
        "doing = PresentWork()\n"
        "doing.warmed('j@1/u')\n"
        "Watchdog(doing, 0.6, lambda: {'running'}).start()\n"
        "with doing.of('j@1/u'):\n"
        "    hangs_here()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == HUNG_STATUS
    assert "the process ends: its loop is stuck for 1." in done.stderr
    assert "in j@1/u" in done.stderr
    assert "in hangs_here" in done.stderr
