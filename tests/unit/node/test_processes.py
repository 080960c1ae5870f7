"""Children die with us, tell at once when they end, and take their own children with them."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.schemas.heartbeats import At
from holdfast.services.node.machine.lifeline import Lifeline, lifeline
from holdfast.services.node.machine.log_limits import LogLimits
from holdfast.services.node.machine.processes import Child, dying_status, service_command, tail
from tests.support.deadlines import HANG_S
from tests.support.processes import Watched, parent_of_one

ATTEMPTS = 50
MUCH_BYTES = 200 * 1024 * 1024
MOST_TRIES = 5

PARENT = """
import signal, sys, threading
from pathlib import Path
from holdfast.services.node.machine.lifeline import lifeline
from holdfast.services.node.machine.processes import Child

def start():
    child = Child([sys.executable, "-c", "import signal; signal.pause()"], log=Path(sys.argv[1]))
    print(child.pid, flush=True)

starter = threading.Thread(target=start)
starter.start()
starter.join()
signal.pause()
"""

Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    children: list[Child] = []

    def start(program: str, **options: object) -> Child:
        command = [sys.executable, "-c", program]
        children.append(Child(command, log=tmp_path / "child.log", **options))  # type: ignore[arg-type]
        return children[-1]

    yield start
    for child in children:
        child.kill()


@pytest.fixture
def told() -> Iterator[tuple[int, Callable[[], str]]]:
    """A pipe for a child to tell a line through: the end it inherits, and how to wait for the line."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as lines:
        yield writing, lines.readline
    os.close(writing)


def test_exit_status_and_signal_are_told(start: Start) -> None:
    assert start("raise SystemExit(3)").wait(HANG_S) == 3
    stopped = start("import signal; signal.pause()")
    assert stopped.running
    assert stopped.returncode is None
    stopped.kill()
    assert stopped.wait(HANG_S) == -signal.SIGKILL
    assert stopped.returncode == -signal.SIGKILL
    assert not stopped.running


def test_end_is_told_within_ten_milliseconds(start: Start, tmp_path: Path) -> None:
    """At one of many times: a busy machine holds up most of them."""
    least_ms = float("inf")
    for attempt in range(ATTEMPTS):
        ended: queue.SimpleQueue[float] = queue.SimpleQueue()
        note = tmp_path / f"died-{attempt}"
        program = f"import os, time; open({str(note)!r}, 'w').write(str(time.monotonic())); os._exit(0)"
        start(program, on_exit=lambda child, ended=ended: ended.put(time.monotonic()))
        least_ms = min(least_ms, (ended.get(timeout=HANG_S) - float(note.read_text())) * 1000)
        if least_ms < 10:
            return
    raise AssertionError(f"{least_ms:.1f} ms and more")


def test_waiting_has_a_deadline(start: Start) -> None:
    child = start("import signal; signal.pause()")
    with pytest.raises(TimeoutError, match=str(child.pid)):
        child.wait(0.01)


def test_signal_to_an_ended_child_does_nothing(start: Start) -> None:
    child = start("pass")
    child.wait(HANG_S)
    child.send(signal.SIGTERM)
    assert child.stop() == 0


def test_stop_kills_a_child_that_does_not_listen(start: Start, told: tuple[int, Callable[[], str]]) -> None:
    writing, line = told
    program = (
        "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"os.write({writing}, b'ready\\n')\n"
        "while True: signal.pause()"
    )
    child = start(program, descriptors={"TOLD": [writing]})
    assert line() == "ready\n"
    assert child.stop(grace_s=0.05) == -signal.SIGKILL


def test_environment_is_laid_over_ours(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "kept")
    program = "import os; print(os.environ['OURS'], os.environ['PYTHONHASHSEED'])"
    start(program, environment={"PYTHONHASHSEED": "0"}).wait(HANG_S)
    assert tail(tmp_path / "child.log") == "kept 0"


@pytest.mark.parametrize(("given", "found"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_AT.UTF-8", "de_AT.UTF-8")])
def test_a_child_finds_files_whose_names_are_not_ascii(
    given: str, found: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's JVM does not, where the locale is C."""
    monkeypatch.setenv("LC_ALL", given)
    start("import os; print(os.environ['LC_ALL'])").wait(HANG_S)
    assert tail(tmp_path / "child.log") == found


def test_a_child_that_crashes_says_where(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONFAULTHANDLER", raising=False)
    child = start("import ctypes; ctypes.string_at(0)")
    assert child.wait(HANG_S) == -signal.SIGSEGV
    assert "Segmentation fault" in (said := (tmp_path / "child.log").read_text())
    assert "ctypes" in said


def test_a_module_of_ours_can_be_run(start: Start, tmp_path: Path) -> None:
    child = Child(service_command("this"), log=tmp_path / "this.log", directory=tmp_path)
    assert child.wait(HANG_S) == 0
    assert "Namespaces" in tail(tmp_path / "this.log", lines=1)


def test_a_file_in_the_folder_of_a_service_takes_no_library_s_place(start: Start, tmp_path: Path) -> None:
    """A person may have a `json.py` where a cluster is started."""
    for name in ("json", "argparse", "codecs"):
        (tmp_path / f"{name}.py").write_text("raise SystemError('no library')")
    child = Child(service_command("json.tool", "--help"), log=tmp_path / "tool.log", directory=tmp_path)
    assert child.wait(HANG_S) == 0, tail(tmp_path / "tool.log")


def test_a_program_that_does_not_exist_ends_with_a_reason_in_its_log(tmp_path: Path) -> None:
    child = Child(["/no/such/program"], log=tmp_path / "child.log")
    assert child.wait(HANG_S) != 0
    assert "/no/such/program" in tail(tmp_path / "child.log")


def test_a_large_log_is_rotated_at_the_next_start(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    for _ in range(3):
        start("print('some twenty letters')", limits=LogLimits(10)).wait(HANG_S)
    assert tail(log) == "some twenty letters"
    assert tail(log.with_name("child.log.1")) == "some twenty letters"


def test_processes_that_a_child_started_end_with_it(start: Start, told: tuple[int, Callable[[], str]]) -> None:
    writing, line = told
    grandchild = f"import os, signal; os.write({writing}, b'%d\\n' % os.getpid()); signal.pause()"
    child = start(
        f"import subprocess, sys, signal; subprocess.Popen([sys.executable, '-c', {grandchild!r}], close_fds=False)\n"
        "signal.pause()",
        descriptors={"TOLD": [writing]},
    )
    watched = Watched(int(line()))
    os.kill(child.pid, signal.SIGKILL)
    assert watched.ended_within(HANG_S)


def test_a_child_outlives_the_thread_that_started_it_but_not_the_process(tmp_path: Path) -> None:
    with parent_of_one(PARENT, str(tmp_path / "child.log")) as (parent, child):
        assert not child.ended_within(0.2)  # the thread that asked for it has ended
        parent.send_signal(signal.SIGKILL)
        assert child.ended_within(HANG_S)


def test_many_threads_can_start_children_at_once(start: Start) -> None:
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    threads = [
        threading.Thread(target=lambda: start("pass", on_exit=lambda child: ended.put(child.wait()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    assert [ended.get(timeout=HANG_S) for _ in threads] == [0] * 8


HOLDS = "from holdfast.services.worker.process.lifeline import hold; import os, signal; hold(); "


def test_a_lifeline_tells_of_a_process_before_its_memory_is_gone(start: Start) -> None:
    """It was stopped in the middle of dying, as far as its parent can see: it has no exit status yet."""
    line = lifeline()
    assert line is not None
    deaths: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    program = (
        HOLDS + f"kept = bytearray({MUCH_BYTES}); kept[::4096] = b'x' * len(kept[::4096]); print('held', flush=True); "
    )
    child = start(program + "signal.pause()", descriptors=line.descriptors)
    line.watch(lambda: deaths.put(child.returncode))
    _until(lambda: "held" in tail(child.log))
    child.kill()
    assert deaths.get(timeout=HANG_S) is None
    assert child.wait(HANG_S) == -signal.SIGKILL


def test_a_lifeline_tells_of_a_process_that_ends_by_itself(start: Start) -> None:
    line = lifeline()
    assert line is not None
    died = threading.Event()
    start(HOLDS, descriptors=line.descriptors)
    line.watch(died.set)
    assert died.wait(HANG_S)


@pytest.mark.parametrize(
    ("death", "status"),
    [("os._exit(3)", 3), ("os.abort()", -signal.SIGABRT), ("os.kill(os.getpid(), 9)", -signal.SIGKILL)],
)
def test_a_lifeline_says_what_the_process_was_at_and_how_it_ends(start: Start, death: str, status: int) -> None:
    """Both are known before it can be waited for: it has much memory to give back. Where the thread that is told gets
    no processor until then, its status is no longer there, so one of several processes is enough.
    """
    program = (
        "from holdfast.services.worker.process.lifeline import hold; import os; traces = hold()\n"
        f"kept = bytearray({MUCH_BYTES}); kept[::4096] = b'x' * len(kept[::4096])\n"
        "with traces.runs('j@1-abcdef/u-0', 7):\n"
        f"    {death}\n"
    )
    known: int | None = None
    for _ in range(MOST_TRIES):
        line = lifeline()
        assert line is not None
        deaths: queue.SimpleQueue[tuple[tuple[At, ...], int | None]] = queue.SimpleQueue()
        child = start(program, descriptors=line.descriptors)
        line.watch(partial(_tell, deaths, line, child))
        left, known = deaths.get(timeout=HANG_S)
        assert left == (At("j@1-abcdef/u-0", 7),)
        assert child.wait(HANG_S) == status
        if known is not None:
            break
    assert known == status


def _tell(deaths: queue.SimpleQueue[tuple[tuple[At, ...], int | None]], line: Lifeline, child: Child) -> None:
    deaths.put((line.left(), dying_status(child.pid)))


def test_a_lifeline_that_nobody_took_hold_of_tells_nothing(start: Start) -> None:
    line = lifeline()
    assert line is not None
    died = threading.Event()
    child = start("pass", descriptors=line.descriptors)
    line.watch(died.set)
    assert child.wait(HANG_S) == 0
    _until(lambda: not any(thread.name == "lifeline" for thread in threading.enumerate()))
    assert not died.is_set()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
