"""Strikes on a container, and their ends."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from bench.compose.project import DockerFailed, Project

KILL_PROCESS = (
    "import json, os, time; "
    "pid = json.load(open('/var/lib/holdfast/workers.json'))[0]['pid']; "
    "time.sleep(0.5); print(time.time(), flush=True); os.kill(pid, 9); time.sleep(1)"
)
"""Half a second after it has begun, and before it ends: to start and to end a command in a container takes the engine
more processor time than the takeover that is looked at.
"""
THROTTLED, HOME = "0.02", "/var/lib/holdfast"
FULL, SMALL_MIB = f"{HOME}/full", 512
"""The file that fills the disk; a disk that may be filled has no more: others are the machine's."""
PAUSES = 5


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault.

    strike: strikes a service; returns the time of day of the strike, s.
    heal: removes the fault, before the service can be back.
    """

    about: str
    strike: Callable[[Project, str], float]
    heal: Callable[[Project, str], None]


def _process(project: Project, service: str) -> float:
    return float(project.inside(service, f'python3.11 -I -S -c "{KILL_PROCESS}"'))


def _nothing(project: Project, service: str) -> None:
    """Does nothing: the container returns by itself."""


def _kill(project: Project, service: str) -> float:
    """Struck when the engine has sent the signal: the command that asks for it takes some tenths of a second."""
    container, since_s = project.container(service), time.time()
    project.docker("kill", "--signal", signal.SIGKILL.name, container)
    chosen = ["--filter", f"container={container}", "--filter", "event=kill", "--format", "{{.TimeNano}}"]
    sent_ns = project.docker("events", "--since", f"{since_s:.3f}", "--until", f"{time.time():.3f}", *chosen)
    return int(sent_ns.split()[0]) / 1e9


def _start(project: Project, service: str) -> None:
    project.docker("start", project.container(service))


def _pause(project: Project, service: str) -> float:
    """Asked again where the engine gives up: its freezer has a time limit, which a busy machine may exceed."""
    for _ in range(PAUSES - 1):
        with suppress(DockerFailed):
            return _paused(project, service)
    return _paused(project, service)


def _paused(project: Project, service: str) -> float:
    container, at_s = project.container(service), time.time()
    project.docker("pause", container)
    return at_s


def _unpause(project: Project, service: str) -> None:
    project.docker("unpause", project.container(service))


def _throttle(project: Project, service: str) -> float:
    container, at_s = project.container(service), time.time()
    project.docker("update", "--cpus", THROTTLED, container)
    return at_s


def _unthrottle(project: Project, service: str) -> None:
    project.docker("update", "--cpus", "1.5", project.container(service))


def _cut(project: Project, service: str) -> float:
    container, at_s = project.container(service), time.time()
    project.docker("network", "disconnect", f"{project.name}_default", container)
    return at_s


def _mend(project: Project, service: str) -> None:
    project.docker("network", "connect", "--alias", service, f"{project.name}_default", project.container(service))


def _fill(project: Project, service: str) -> float:
    """Fills the service's disk. Raises DockerFailed unless it is a small disk of its own."""
    size_mib = int(project.inside(service, f"df --output=size --block-size=1M {HOME} | tail -n 1"))
    if size_mib > SMALL_MIB:
        raise DockerFailed(f"{service} has {size_mib} MiB of disk: no disk of its own that may be filled")
    at_s = time.time()
    project.inside(service, f"dd if=/dev/zero of={FULL} bs=64k 2>/dev/null; ls {FULL} >/dev/null")
    return at_s


def _empty(project: Project, service: str) -> None:
    project.inside(service, f"rm {FULL}")


STRIKES: Mapping[str, Strike] = {
    "process": Strike("the process is killed in its container", _process, _nothing),
    "container": Strike("the container is killed", _kill, _start),
    "paused": Strike("the container is paused", _pause, _unpause),
    "throttled": Strike(f"the container has {THROTTLED} CPUs", _throttle, _unthrottle),
    "cut-off": Strike("the container has no network", _cut, _mend),
    "full-disk": Strike("the container's disk is full", _fill, _empty),
}


def restarts(project: Project, service: str) -> int:
    """Number of starts of the container by the engine since the first."""
    return int(json.loads(project.docker("inspect", project.container(service)))[0]["RestartCount"])
