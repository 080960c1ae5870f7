"""Cuts a broker off from everybody else on this machine, by what the kernel drops: needs root and iptables."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class CannotPartition(RuntimeError):
    """Not on this machine; the message says why."""


class Fence:
    """A control group whose sockets can be silenced. Use `close` at the end."""

    def __init__(self, name: str) -> None:
        """Raises CannotPartition."""
        self._group = f"holdfast-{os.getpid()}-{name}"
        self._folder = _unified() / self._group
        self._rule = ["OUTPUT", "-o", "lo", "-m", "cgroup", "--path", self._group, "-j", "DROP"]
        try:
            self._folder.mkdir()
        except OSError as error:
            raise CannotPartition(f"no control group can be made: {error}") from error

    def take(self, pid: int) -> None:
        """The sockets that the process opens from now on are in the group."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing that the process sends arrives, until the end of the block."""
        _iptables("-A", *self._rule)
        try:
            yield
        finally:
            _iptables("-D", *self._rule)

    def close(self) -> None:
        """Whoever is in the group still goes back to where all others are."""
        for pid in (self._folder / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it has just ended
                (self._folder.parent / "cgroup.procs").write_text(pid)
        self._folder.rmdir()


def _unified() -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise CannotPartition("there is no unified control group hierarchy")


def _iptables(*words: str) -> None:
    program = shutil.which("iptables")
    if program is None or os.geteuid() != 0:
        raise CannotPartition("iptables is not installed, or this is not root")
    done = subprocess.run([program, "-w", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotPartition(f"iptables {' '.join(words)}: {done.stderr.strip()}")


def check() -> None:
    """Raises CannotPartition where it cannot be done."""
    fence = Fence("check")
    try:
        with fence.cut():
            pass
    finally:
        fence.close()
