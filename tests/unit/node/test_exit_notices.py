"""The end of a process is reported once, and a second time only if the first report lacked what is known now."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.schemas.heartbeats import At
from holdfast.services.node.members.exit_notices import ExitNotices
from holdfast.services.node.members.members import Member
from holdfast.services.node.members.notices import Notices

WORK = (At("job/1-a/u-0", 7),)
KILLED = -signal.SIGKILL


class Sent:
    """In place of notices to Kafka: keeps their status, their work, and whether the process had no status yet."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, int, tuple[At, ...], bool]] = []

    def ended(self, worker: str, incarnation: str, status: int, at: tuple[At, ...], dying: bool) -> None:
        assert worker == "worker-1"
        self.notices.append((incarnation, status, at, dying))


def member(dying_status: int | None, left: tuple[At, ...] = ()) -> Member:
    return cast(Member, SimpleNamespace(name="worker-1", dying_status=dying_status, left=lambda run: left))


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def exits(sent: Sent) -> ExitNotices:
    made = ExitNotices()
    made.send_by(cast(Notices, sent))
    return made


def test_an_end_without_an_early_sign_is_reported_with_its_status(exits: ExitNotices, sent: Sent) -> None:
    exits.ended(member(None, WORK), "1", 3)
    assert sent.notices == [("1", 3, WORK, False)]


def test_an_early_notice_with_a_status_is_the_only_one(exits: ExitNotices, sent: Sent) -> None:
    worker = member(KILLED, WORK)
    exits.dying(worker, "1")
    exits.ended(worker, "1", KILLED)
    assert sent.notices == [("1", KILLED, WORK, False)]


@pytest.mark.parametrize("left", [(), WORK])
def test_an_early_notice_without_a_status_is_completed_if_the_process_left_work(
    left: tuple[At, ...], exits: ExitNotices, sent: Sent
) -> None:
    worker = member(None, left)
    exits.dying(worker, "1")
    exits.ended(worker, "1", 1)
    assert sent.notices == [("1", KILLED, left, True), *([("1", 1, left, False)] if left else [])]


def test_a_notice_of_a_former_run_says_nothing_of_the_next(exits: ExitNotices, sent: Sent) -> None:
    worker = member(KILLED)
    exits.dying(worker, "1")
    exits.ended(worker, "1", KILLED)
    exits.ended(worker, "2", 0)
    assert [incarnation for incarnation, *_ in sent.notices] == ["1", "2"]


def test_nothing_is_sent_while_there_is_no_kafka_to_send_to() -> None:
    exits = ExitNotices()
    exits.dying(member(None), "1")
    exits.ended(member(None), "1", 0)
