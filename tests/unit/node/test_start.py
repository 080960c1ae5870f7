"""A start waits for a sign of each member, and ends with the reason for which it cannot succeed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.services.node.members.members import Member
from holdfast.services.node.members.readiness import Readiness
from holdfast.services.node.members.start_limit import StartLimit
from holdfast.services.node.start import Start, StartFailed, Stopped


class Signs:
    """In place of a reader: hears the given names, one in each poll."""

    stranger = None

    def __init__(self, *names: str) -> None:
        self._to_come, self._heard = list(names), set[str]()

    def missing(self, workers: set[str]) -> list[str]:
        return sorted(workers - self._heard)

    def reached(self, workers: set[str]) -> bool:
        return not self.missing(workers)

    def poll(self, timeout_s: float) -> None:
        if self._to_come:
            self._heard.add(self._to_come.pop(0))


def member(name: str, log: Path | None = None, restarts: int = 0) -> Member:
    return cast(Member, SimpleNamespace(name=name, log=log, restarts=restarts, processor_s=0.0))


def start(signs: Signs, limit_s: float = 1e9) -> Start:
    return Start(
        cast(Readiness, signs), ["worker-1", "worker-2"], StartLimit(0.0, limit_s), claim=None, logs=Path("logs")
    )


def test_a_start_is_over_once_each_worker_was_heard() -> None:
    turns: list[int] = []
    start(Signs("worker-2", "worker-1")).wait(lambda: [member("worker-1")], lambda: turns.append(1))
    assert len(turns) == 2


def test_a_member_that_ends_again_and_again_fails_the_start_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "worker-2.log"
    log.write_text("it has no port\n")
    members = [member("worker-1", restarts=2), member("worker-2", log, restarts=3)]
    with pytest.raises(StartFailed, match=rf"worker-2 ends as soon as it starts: see {log}\n[\s\S]*it has no port"):
        start(Signs()).wait(lambda: members, lambda: None)


def test_a_member_without_a_sign_in_time_fails_the_start() -> None:
    with pytest.raises(StartFailed, match=r"no sign of life of worker-2 in time: see logs"):
        start(Signs("worker-1"), limit_s=-1e9).wait(lambda: [], lambda: None)


def test_a_turn_may_give_the_start_up() -> None:
    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        start(Signs()).wait(lambda: [], stop)
