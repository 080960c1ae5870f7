"""A worker that is asked to stop: others take over its units first, unless time is over or all end together."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from holdfast.services.hosting.host_end import HostEnd


@dataclass
class Hosting:
    """A worker, and what sends its heartbeats."""

    leaving: bool = False
    leads: bool = True
    sent: int = 0

    def send_now(self) -> None:
        self.sent += 1


class Asked:
    """A worker that is asked, on a clock that is stopped unless moved."""

    def __init__(self, leave_s: float = 10.0) -> None:
        self.now_s = 100.0
        self.ending, self.host = HostEnd(leave_s, lambda: self.now_s), Hosting()

    def due(self) -> bool:
        return self.ending.due(self.host, self.host)


def test_a_worker_that_nobody_asked_to_end_continues() -> None:
    asked = Asked()
    assert not asked.due()
    assert not asked.host.leaving


def test_sigterm_is_told_at_once_and_a_worker_ends_when_others_lead() -> None:
    asked = Asked()
    asked.ending.asked(signal.SIGTERM)
    assert not asked.due()
    assert not asked.due()
    assert (asked.host.leaving, asked.host.sent) == (True, 1)
    asked.host.leads = False
    assert asked.due()


def test_a_worker_ends_once_its_time_is_over_though_nobody_took_over() -> None:
    asked = Asked()
    asked.ending.asked(signal.SIGTERM)
    asked.now_s += 9.9
    assert not asked.due()
    asked.now_s += 0.1
    assert asked.due()


def test_sigint_or_a_second_sigterm_ends_it_at_once() -> None:
    for signals in ([signal.SIGINT], [signal.SIGTERM, signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]):
        asked = Asked()
        for number in signals:
            asked.ending.asked(number)
        assert asked.due()
        assert not asked.host.leaving


def test_without_time_to_leave_it_ends_at_once() -> None:
    asked = Asked(leave_s=0)
    asked.ending.asked(signal.SIGTERM)
    assert asked.due()
