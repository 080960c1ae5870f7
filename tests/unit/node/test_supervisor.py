"""What the supervisor runs, before anything is started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.services.cli.foreground import _draw
from holdfast.services.node.machine.restarts import DELAYS_S
from holdfast.services.node.members.service import Service
from holdfast.services.node.settings import Settings
from holdfast.services.node.supervisor import YIELD_S, Supervisor


def test_as_many_recovery_replicas_run_as_the_settings_say(tmp_path: Path) -> None:
    supervisor = Supervisor(Settings(home=tmp_path, recoveries=2), workers=1)
    assert [one.name for one in supervisor.members] == ["controller", "recovery-1", "recovery-2", "worker-1"]


def test_a_cluster_without_recovery_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        Settings(home=tmp_path, recoveries=0)


def test_the_live_summary_shows_every_member(tmp_path: Path) -> None:
    table = _draw(Supervisor(Settings(home=tmp_path, recoveries=2), workers=2))
    assert list(table.columns[0].cells) == ["kafka", "controller", "recovery-1", "recovery-2", "worker-1", "worker-2"]
    assert list(table.columns[4].cells)[-2:] == ["zone-1", "zone-2"]


def test_a_worker_leaves_the_machine_to_those_that_take_over_and_is_needed_at_once_when_there_are_none(
    tmp_path: Path,
) -> None:
    several, one = (Supervisor(Settings(home=tmp_path), workers=count).workers for count in (2, 1))
    assert [worker.rest_s for worker in [*several, *one]] == [YIELD_S, YIELD_S, 0]
    began_s = time.monotonic()
    for worker in [*several, *one]:
        worker.settle()
        assert worker.due is not None
    assert all((worker.due or 0) - began_s >= YIELD_S for worker in several)
    assert (one[0].due or 0) <= time.monotonic() + DELAYS_S[0]


def test_members_are_forks_unless_the_settings_say_otherwise_or_there_is_no_worker(tmp_path: Path) -> None:
    made = [
        Supervisor(Settings(home=tmp_path, fork_server=wanted), workers=1, service=service)
        for wanted, service in ((True, None), (True, Service.WORKER), (False, None), (True, Service.RECOVERY))
    ]
    launched = [{member.launch.__qualname__ for member in supervisor.members} for supervisor in made]
    assert launched == [{"ForkServer.start"}, {"ForkServer.start"}, {"spawn"}, {"spawn"}]


def test_a_cluster_serves_a_console_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    opened = [
        Supervisor(Settings(home=tmp_path, console=console, console_port=8_461), workers=1, service=service)._console
        for console, service in ((True, None), (False, None), (True, Service.WORKER))
    ]
    assert [door is not None for door in opened] == [True, False, False]
