"""Conditions of a result besides us: the machine, what others do on it, and versions."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from holdfast.services.node.machine.artifacts import INFRA

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STOLEN = 7
_IDLE = (3, 4)


def machine() -> dict[str, Any]:
    model = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    total = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cpus": os.cpu_count(),
        "model": model[1] if model else platform.machine(),
        "memory_mib": int(total[1]) >> 10 if total else None,
    }


def versions() -> dict[str, str]:
    """Versions that decide about speed; holdfast with its commit."""
    import confluent_kafka

    found = {name: _installed(name) for name in ("polars", "pyarrow", "confluent-kafka")}
    listed = (INFRA / "kafka" / "artifacts.txt").read_text()
    kafka = re.search(r"^org\.apache\.kafka \S+ (\S+)", listed, re.MULTILINE)
    return {
        "python": platform.python_version(),
        **found,
        "librdkafka": confluent_kafka.libversion()[0],
        "kafka": kafka[1] if kafka else "?",
        "holdfast": f"{_installed('holdfast-streams')} {_commit()}".strip(),
    }


def cpu_s(pid: int, *, children: bool = False) -> float:
    """CPU seconds of a process so far, 0 if it has ended; with `children`, also those of its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if children else 13])) / _TICKS_PER_S


def rss_mib(pid: int) -> float:
    """Resident memory in MiB; 0 if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


class Outside:
    """CPU used by other processes than the measured ones, in cores, from its creation to `cores`.

    CPU of an ended child counts for its parent, so call `cores` while the processes of `roots` still run.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy, self._stolen = machine_cpu_s()
        self._own = trees_cpu_s([os.getpid()])

    def cores(self, roots: Iterable[int] = ()) -> dict[str, float]:
        """Cores used outside the measured processes.

        other: used by other processes.
        stolen: taken from this machine by its host.
        """
        took = max(time.monotonic() - self._began, 1e-3)
        busy, stolen = machine_cpu_s()
        own = trees_cpu_s([os.getpid(), *roots]) - self._own
        return {
            "other": round(max(0.0, busy - self._busy - own) / took, 2),
            "stolen": round((stolen - self._stolen) / took, 2),
        }


def resting(seconds: float) -> dict[str, float]:
    """The load before we begin."""
    outside = Outside()
    time.sleep(seconds)
    return {"load_1min": round(os.getloadavg()[0], 2), **outside.cores()}


def machine_cpu_s() -> tuple[float, float]:
    """Seconds so far that CPUs were busy for us, and that the host kept."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    busy = sum(count for place, count in enumerate(ticks) if place not in (*_IDLE, _STOLEN))
    return busy / _TICKS_PER_S, ticks[_STOLEN] / _TICKS_PER_S


def trees_cpu_s(roots: Iterable[int]) -> float:
    """CPU seconds of these processes and all their descendants."""
    return sum(cpu_s(pid, children=True) for pid in trees(roots))


def trees(roots: Iterable[int]) -> list[int]:
    """These processes and all their descendants, each behind its parent."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    ours, open_ones = dict[int, None](), list(roots)
    while open_ones:
        pid = open_ones.pop()
        if pid not in ours:
            ours[pid] = None
            open_ones += children.get(pid, [])
    return list(ours)


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "?"


def _commit() -> str:
    """Commit of this program's checkout; empty outside one."""
    command = ["git", "-C", str(INFRA), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
