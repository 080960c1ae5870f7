"""A process of a cluster is a fork of one that has loaded its modules, and in all else like one that is started."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.services.node.machine import fork_server
from holdfast.services.node.machine.fork_server import ForkServer
from holdfast.services.node.machine.lifeline import lifeline
from holdfast.services.node.machine.processes import ENVIRONMENT, Child, parent_of, service_command, tail
from holdfast.services.node.members.members import Member
from tests.support.commands import until
from tests.support.deadlines import HANG_S
from tests.support.processes import parent_of_one

SHOWN = """
import os, signal, sys
from holdfast.services.worker.process.lifeline import hold
assert __name__ == "__main__"
hold()
own = os.getpgid(0) == os.getpid()
print("argv", sys.argv[1:], "in", os.getcwd(), "as", os.environ["NAME"], "own group", own, flush=True)
print("loaded before:", "heavy" in sys.modules, file=sys.stderr, flush=True)
if os.environ["NAME"] == "brief":
    sys.exit(7)
signal.pause()
"""
HEAVY = "import os\nLOADED_BY = os.getpid()\n"
PARENT = """
import signal, sys
from pathlib import Path
from holdfast.services.node.machine.fork_server import ForkServer
from holdfast.services.node.machine.processes import ENVIRONMENT, Child, service_command

forks = ForkServer(["heavy"])
forks.provide()
while forks.loads(1):
    pass
child = Child(
    service_command("shown"), log=Path(sys.argv[1]), environment={**ENVIRONMENT, "NAME": "it"}, start=forks.start
)
forks.close()
print(child.pid, flush=True)
signal.pause()
"""

Start = Callable[..., Child]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each process is started by itself")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules, of which the server loads one and processes run another one."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "heavy.py").write_text(HEAVY)
    (folder / "shown.py").write_text(SHOWN)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def forks(modules: Path) -> Iterator[ForkServer]:
    made = ForkServer(["heavy"])
    made.provide()
    until(lambda: not made.loads(0.1), "the server has loaded its modules")
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path, forks: ForkServer) -> Iterator[Start]:
    """Starts a process that runs `shown` by the server."""
    children: list[Child] = []

    def start(name: str = "it", **options: Any) -> Child:
        own = {**ENVIRONMENT, "NAME": name, **options.pop("environment", {})}
        log = tmp_path / f"{name}.log"
        children.append(Child(service_command("shown"), log=log, environment=own, start=forks.start, **options))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


def said(child: Child) -> str:
    """Both lines of its log."""
    until(lambda: "loaded before" in tail(child.log), "it has told")
    return tail(child.log)


def is_fork(child: Child) -> bool:
    return "loaded before: True" in said(child)


def test_a_process_is_a_fork_and_our_child_with_a_group_a_log_a_folder_and_a_command_of_its_own(
    start: Start, tmp_path: Path
) -> None:
    child = start(directory=tmp_path)
    assert f"argv [] in {tmp_path} as it own group True" in said(child)
    assert is_fork(child)
    assert parent_of(child.pid) == os.getpid()
    shown = Path(f"/proc/{child.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert shown == [os.fsencode(word) for word in service_command("shown")]


def test_the_end_of_a_fork_is_reported_with_its_status(start: Start) -> None:
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    start("brief", on_exit=lambda child: ended.put(child.wait()))
    assert ended.get(timeout=HANG_S) == 7
    child = start(on_exit=lambda child: ended.put(child.wait()))
    assert is_fork(child)
    os.kill(child.pid, signal.SIGKILL)
    assert ended.get(timeout=HANG_S) == -signal.SIGKILL
    assert child.returncode == -signal.SIGKILL


def test_a_lifeline_tells_of_a_fork_that_dies(start: Start) -> None:
    line = lifeline()
    assert line is not None
    deaths: queue.SimpleQueue[str] = queue.SimpleQueue()
    child = start(descriptors=line.descriptors)
    line.watch(lambda: deaths.put("died"))
    assert is_fork(child)
    child.kill()
    assert deaths.get(timeout=HANG_S) == "died"


def test_a_fork_outlives_the_server_but_not_the_supervisor(modules: Path, tmp_path: Path) -> None:
    with parent_of_one(PARENT, str(tmp_path / "it.log")) as (parent, child):
        until(lambda: "loaded before: True" in tail(tmp_path / "it.log"), "it is a fork and runs")
        assert not child.ended_within(0.2)  # the server has ended
        parent.send_signal(signal.SIGKILL)
        assert child.ended_within(HANG_S)


def test_without_a_server_a_process_starts_by_itself_until_there_is_one_again(
    start: Start, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.services.node.machine.restarts.DELAYS_S", (0.0,))
    former = forks.pid
    assert former is not None
    os.kill(former, signal.SIGKILL)
    until(lambda: forks.pid is None, "it has ended")
    assert not is_fork(start("first"))
    forks.provide()
    assert forks.pid not in (None, former)
    until(lambda: not forks.loads(0.1), "the next one has loaded its modules")
    assert is_fork(start("second"))


def test_a_server_that_hangs_is_given_up_and_runs_nothing_later(
    start: Start, forks: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "ANSWER_S", 0.05)
    assert forks.pid is not None
    os.kill(forks.pid, signal.SIGSTOP)
    child = start()
    assert not is_fork(child)
    until(lambda: forks.pid is None, "the server is ended")
    assert tail(tmp_path / "it.log").count("loaded before") == 1


def test_code_that_has_changed_since_it_was_loaded_is_loaded_again(
    start: Start, forks: ForkServer, modules: Path
) -> None:
    """An upgrade of the package in its place: the next process runs what is installed by then."""
    assert is_fork(start("before"))
    (modules / "heavy.py").write_text(HEAVY + "NEW = True\n")
    assert not is_fork(start("after"))
    until(lambda: forks.pid is None, "the server ends by itself")


def test_a_process_with_other_settings_of_the_interpreter_starts_by_itself(start: Start) -> None:
    assert not is_fork(start(environment={"POLARS_MAX_THREADS": "2"}))


def test_a_server_whose_modules_start_threads_forks_nothing(modules: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with_thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    (modules / "heavy.py").write_text(with_thread)
    forks = ForkServer(["heavy"])
    forks.provide()
    until(lambda: forks.pid is None, "it ends")
    assert not forks.loads(0.1)
    assert "has 2 threads" in capfd.readouterr().out
    forks.provide()
    assert forks.pid is None, "another one would be no better"
    forks.close()


def test_a_member_runs_as_a_fork_from_its_first_start_on(forks: ForkServer, tmp_path: Path) -> None:
    ended: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    runs = iter("123")
    member = Member(
        "worker-1", "shown", tmp_path / "it.log",
        environment=lambda run: {"NAME": f"it {run}"},
        new_run=lambda former: next(runs),
        ended=lambda member, run, status: ended.put((run, status)),
    )  # fmt: skip
    member.launch = forks.start
    for run in ("1", "2"):
        member.start()
        until(lambda: tail(member.log).count("loaded before: True") == int(run), "it runs")  # noqa: B023
        assert f"as it {run}" in tail(member.log)
        assert member.pid is not None
        os.kill(member.pid, signal.SIGKILL)
        assert ended.get(timeout=HANG_S) == (run, -signal.SIGKILL)


def test_the_modules_of_the_processes_start_no_thread_that_a_fork_would_miss() -> None:
    """jemalloc and OpenBLAS (which has the name of the process) prepare for a fork; polars' cleaner sleeps."""
    program = (
        "import os, threading\n"
        "from holdfast.services.node.supervisor import LOADED\n"
        "from holdfast.services.process.fork_server import load\n"
        "load(LOADED[None])\n"
        "names = {open(f'/proc/self/task/{one}/comm').read().strip() for one in os.listdir('/proc/self/task')}\n"
        "print(threading.active_count(), *sorted(names - {open('/proc/self/comm').read().strip()}))\n"
    )
    own = os.environ | dict(ENVIRONMENT)
    said = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=HANG_S)
    count, *names = said.stdout.split()
    assert count == "1"
    assert set(names) <= {"jemalloc_bg_thd", "polars-ooc-clea"}
