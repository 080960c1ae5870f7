"""What a controller that runs alone has printed, and when its word is enough to start the next broker."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from holdfast.services.node.kafka.fence import NotFenced, await_fenced, is_fenced, lone_controller

REGISTERED = (
    "ClusterControlManager: Replayed initial RegisterBrokerRecord for broker 1: RegisterBrokerRecord(brokerId=1, "
    "endPoints=[BrokerEndpoint(name='CLIENTS', port=9092)], rack=null, fenced=true, inControlledShutdown=false)"
)
ACTIVE = "WARN QuorumController: [QuorumController id=1] Performing controller activation."


def changed(fenced: int) -> str:
    return (
        f"Replayed BrokerRegistrationChangeRecord modifying broker 1: BrokerRegistrationChangeRecord(fenced={fenced})"
    )


def decided(offset: int) -> str:
    return f"QuorumController: Replaying log record BrokerRegistrationChangeRecord(brokerId=1) with offset {offset}"


def written(offset: int) -> str:
    return f"QuorumController: Completing purgatory items up to offset {offset} and epoch 4."


@pytest.mark.parametrize(
    ("lines", "fenced"),
    [
        ([], False),
        ([REGISTERED, changed(-1)], False),
        ([REGISTERED, changed(-1), changed(1)], False),  # the past of a log that is still being read
        ([REGISTERED, changed(-1), changed(1), changed(-1), ACTIVE], False),
        ([REGISTERED, changed(-1), changed(0), ACTIVE], False),
        ([REGISTERED, changed(-1), ACTIVE, decided(19), changed(1)], False),  # a stop would lose it
        ([REGISTERED, changed(-1), ACTIVE, decided(19), changed(1), written(18)], False),
        ([REGISTERED, changed(-1), ACTIVE, decided(19), changed(1), decided(20), written(19)], True),
        ([REGISTERED, changed(-1), decided(19), changed(1), ACTIVE], True),  # the log has it: it was read there
        ([REGISTERED, changed(-1), changed(1), ACTIVE], True),
        ([REGISTERED, ACTIVE], True),  # it crashed before it led
        ([ACTIVE], True),  # it crashed before it was known
    ],
)
def test_an_active_controller_without_an_active_broker_is_enough(lines: list[str], fenced: bool) -> None:
    assert is_fenced(lines) is fenced


@pytest.mark.parametrize(("second", "fenced"), [(1, True), (-1, False)])
def test_each_of_several_brokers_must_be_out_of_charge(second: int, fenced: bool) -> None:
    other = changed(second).replace("broker 1", "broker 2")
    both = [REGISTERED, REGISTERED.replace("broker 1", "broker 2")]
    assert is_fenced([*both, ACTIVE, other, decided(9), changed(1), written(9)]) is fenced


def test_a_controller_that_ends_or_says_nothing_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    talks = [sys.executable, "-c", "print('no space left')"]
    log = tmp_path / "fence.out"
    with lone_controller(talks, tmp_path, log, {}) as one, pytest.raises(NotFenced, match="no space left"):
        await_fenced([one], time.monotonic() + 60)
    waits = [sys.executable, "-c", "import signal; signal.pause()"]
    with lone_controller(waits, tmp_path, log, {}) as one, pytest.raises(NotFenced):
        await_fenced([one], time.monotonic())
