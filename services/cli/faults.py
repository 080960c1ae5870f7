"""Faults on purpose: `kill` ends a worker of the cluster on this machine, `stall` stops it for a while."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, say
from holdfast.services.cli.whereabouts import data_directory
from holdfast.services.kernel.errors import FAILED, CommandFailed

if TYPE_CHECKING:
    from holdfast.services.node.machine.cluster_files import WorkerProcess

PERIOD_S = 0.1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Worker = Annotated[str, typer.Argument(metavar="WORKER", help="Its name, such as worker-1.")]


def kill(worker: Worker, data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """Kill a worker of the local cluster without warning (SIGKILL), to see what happens; it is started again."""
    one = kill_worker(worker, data_dir)
    if as_json:
        print_json({"worker": worker, "incarnation": one.incarnation, "pid": one.pid})
    else:
        say(f"killed {worker} (process {one.pid}); `holdfast events` shows what happens")


def stall(
    worker: Worker,
    seconds: Annotated[float, typer.Option("--seconds", "-s", min=0, max=86_400, help="For how long.")],
    duty: Annotated[
        float, typer.Option("--duty", min=0, max=1, help=f"Share of each {PERIOD_S:g} s in which it is stopped.")
    ] = 1.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Stop a worker of the local cluster for a while (SIGSTOP), or slow it down; it always continues afterwards."""
    with _held(worker, data_dir) as (one, process):
        started = time.monotonic()
        interrupted = _stop_and_go(process, seconds, duty)
        stalled_s = time.monotonic() - started
    if as_json:
        found = {"worker": worker, "incarnation": one.incarnation, "pid": one.pid, "seconds": round(stalled_s, 3)}
        print_json({**found, "duty": duty, "interrupted": interrupted})
    else:
        say(f"{worker} (process {one.pid}) continues after {stalled_s:.1f} s; `holdfast events` shows what happened")
    if interrupted:
        note("stopped early")
        raise typer.Exit(FAILED)


def kill_worker(worker: str, data_dir: Path | None) -> WorkerProcess:
    """Kills a worker; returns its process. Raises CommandFailed if there is none."""
    with _held(worker, data_dir) as (one, process):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    return one


def stall_worker(worker: str, seconds: float, data_dir: Path | None) -> None:
    """Stops a worker for a time in seconds. Raises CommandFailed if there is none."""
    with _held(worker, data_dir) as (_, process):
        _stop_and_go(process, seconds, 1.0)


def _stop_and_go(process: int, seconds: float, duty: float) -> bool:
    """Stops and resumes the process in turn; true if it was asked to end early. Signals wait until the worker
    continues, so
    none can leave it stopped.
    """
    deadline = time.monotonic() + seconds
    former = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        while (left := deadline - time.monotonic()) > 0:
            period = min(PERIOD_S, left)
            if duty > 0:
                signal.pidfd_send_signal(process, signal.SIGSTOP)
                if _end_asked(period * duty):
                    return True
            if duty < 1:
                signal.pidfd_send_signal(process, signal.SIGCONT)
                if _end_asked(period * (1 - duty)):
                    return True
        return False
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGCONT)
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _end_asked(within_s: float) -> bool:
    return signal.sigtimedwait(_ENDING, within_s) is not None


@contextmanager
def _held(worker: str, data_dir: Path | None) -> Iterator[tuple[WorkerProcess, int]]:
    """A worker of the local cluster and a descriptor of its process, which stays that of no other process.

    Raises CommandFailed if there is none, also when it ends meanwhile.
    """
    from holdfast.services.node.machine.cluster_files import ClusterFiles
    from holdfast.services.node.machine.processes import parent_of

    files = ClusterFiles(data_directory(data_dir))
    if files.running() is None:
        raise CommandFailed(f"no cluster runs in {files.data_dir}", "this works on a cluster that `holdfast up` runs")
    known = {one.worker: one for one in files.workers()}
    if worker not in known:
        raise CommandFailed(f"there is no worker '{worker}'", f"there are: {', '.join(sorted(known)) or 'none'}", 2)
    one = known[worker]
    ended = CommandFailed(f"{worker} has just ended and is being started again", "try again in a moment")
    if one.pid is None:
        raise ended
    try:
        process = os.pidfd_open(one.pid)
    except ProcessLookupError:
        raise ended from None
    try:
        # The number may be another's by now; the file may be old, where there was no room for a new one.
        if one not in files.workers() or parent_of(one.pid) != files.supervisor():
            raise ended
        yield one, process
    except ProcessLookupError:
        raise ended from None
    finally:
        os.close(process)
