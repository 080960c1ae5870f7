"""A share of a CPU for each worker of a measured cluster: a control group each, kept while workers restart.

So five small workers fit on two cores, and none takes another's share. Control groups are those of version 2 where the
cpu controller is available, else those of version 1.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.rig.followed import MeasureFailed

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 20_000
"""Short, so that a worker that has used its share up waits for milliseconds, not for a heartbeat."""
LOOK_S = 0.05


class Quotas:
    """Within its context, each process of one of these workers has the share.

    Args:
        workers: process number by name, asked repeatedly: a killed worker returns as another process.
        share: share of one CPU.
    """

    def __init__(self, workers: Callable[[], Mapping[str, int]], share: float, root: Path = ROOT) -> None:
        self._workers = workers
        self._share = share
        self._version_2, self._home = _controller(root)
        self._folder = self._home / f"holdfast-bench-{os.getpid()}"
        self._placed: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quotas", daemon=True)

    def __enter__(self) -> Quotas:
        """Makes the control groups. Raises MeasureFailed if none can be made here."""
        try:
            self._folder.mkdir()
            if self._version_2:
                (self._folder / "cgroup.subtree_control").write_text("+cpu")
            self.look()
        except OSError as error:
            raise _impossible(self._home, error) from error
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for name in self._placed:
            group = self._folder / name
            for pid in _text(group / "cgroup.procs").split():
                _try(lambda pid=pid: (self._home / "cgroup.procs").write_text(pid))  # type: ignore[misc]
            _try(group.rmdir)
        _try(self._folder.rmdir)

    def join(self, name: str, pid: int) -> None:
        """Another process shares what the worker has. Raises OSError: it has ended, or the worker has no share yet."""
        (self._folder / name / "cgroup.procs").write_text(str(pid))

    def look(self) -> None:
        """Processes that are new get their share."""
        for name, pid in self._workers().items():
            if self._placed.get(name) != pid:
                group = self._folder / name
                if name not in self._placed:
                    group.mkdir(exist_ok=True)
                    limit(group, self._share, version_2=self._version_2)
                _try(lambda group=group, pid=pid: (group / "cgroup.procs").write_text(str(pid)))  # type: ignore[misc]
                self._placed[name] = pid

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            self.look()


@contextmanager
def confined(share: float, root: Path = ROOT) -> Iterator[None]:
    """Whatever this process starts meanwhile has this share of one CPU, all together, for as long as it runs.

    Raises:
        MeasureFailed: no control group can be made here.
    """
    version_2, home = _controller(root)
    group = home / f"holdfast-bench-all-{os.getpid()}"
    try:
        group.mkdir(exist_ok=True)
        if version_2:
            (root / "cgroup.subtree_control").write_text("+cpu")
        limit(group, share, version_2=version_2)
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise _impossible(home, error) from error
    try:
        yield
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        atexit.register(_try, group.rmdir)


def limit(group: Path, share: float, *, version_2: bool) -> None:
    """Gives a control group its quota. Raises OSError."""
    quota_us = round(share * PERIOD_US)
    if version_2:
        (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))


def _controller(root: Path) -> tuple[bool, Path]:
    """True where the cpu controller is that of version 2, and the folder of its control groups."""
    version_2 = "cpu" in _text(root / "cgroup.controllers").split()
    return version_2, root if version_2 else root / "cpu"


def _impossible(home: Path, error: OSError) -> MeasureFailed:
    reason = f"no CPU quota can be set below {home} ({error.strerror})"
    return MeasureFailed(f"{reason}: run it as root on a machine whose cpu controller is writable")


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _try(work: Callable[[], object]) -> None:
    """Makes a call; ignores its OSError, because a process may have ended, or a group may be deleted."""
    try:
        work()
    except OSError:
        return
