"""The table of the line that works at tentative batches: each row, and that stable batches come first."""

from __future__ import annotations

from holdfast.services.worker.core.tentative import PATIENCE_MS, Do, LineState, LineView, State


def view(stable: int = 5, *, stands: bool = True, ahead: bool = True, out: str = "a1", leads: bool = True) -> LineView:
    return LineView(leads, out, stable, stands, ahead)


def forked() -> LineState:
    line = LineState()
    assert line.next_action(view(), 0) is Do.LISTEN
    assert line.next_action(view(), 10) is Do.NOTHING, "most frames come by themselves"
    assert line.due_ms(view(), 20) == PATIENCE_MS
    assert line.next_action(view(), PATIENCE_MS) is Do.FORK
    line.processed(6)
    return line


def test_a_copy_forks_once_it_has_stood_for_a_while_and_something_is_there() -> None:
    line = LineState()
    assert line.next_action(view(out=""), 0) is Do.NOTHING
    assert line.next_action(view(), 1) is Do.LISTEN
    assert line.next_action(view(stands=False), 500) is Do.NOTHING
    assert line.next_action(view(6), 501) is Do.NOTHING
    assert line.next_action(view(6, ahead=False), 900) is Do.NOTHING
    assert line.next_action(view(6), 901) is Do.FORK
    assert line.done == 6


def test_the_time_in_which_a_failure_is_detected_counts_for_the_patience() -> None:
    line = LineState()
    for now_ms in (0, 50, 100, 150):
        line.see(5, now_ms)
    assert line.next_action(view(), 150) is Do.LISTEN
    assert line.due_ms(view(), 150) <= 150
    assert line.next_action(view(), 150) is Do.FORK
    line = LineState()
    line.see(5, 0)
    assert line.next_action(view(6), 150) is Do.LISTEN
    assert line.next_action(view(6), 151) is Do.NOTHING, "its last stable batch was just now"
    assert line.due_ms(view(6), 151) == 150 + PATIENCE_MS


def test_stable_batches_come_first_and_the_line_continues_while_they_catch_up() -> None:
    line = forked()
    assert line.next_action(view(5, stands=False), 200) is Do.NOTHING
    line.processed(9)
    assert line.next_action(view(7), 201) is Do.PROCESS
    assert line.next_action(view(9, stands=False), 202) is Do.JOIN
    assert line.state is State.LISTENS
    assert line.next_action(view(9, out=""), 203) is Do.END


def test_a_line_waits_for_the_stable_one_when_the_outage_is_over() -> None:
    line = forked()
    assert line.next_action(view(5, out=""), 200) is Do.NOTHING
    assert line.next_action(view(6, out=""), 201) is Do.JOIN


def test_a_line_ends_with_the_lead_and_for_good_when_it_has_failed() -> None:
    assert forked().next_action(view(leads=False), 200) is Do.END
    line = forked()
    line.ban("a1")
    assert line.next_action(view(), 200) is Do.END
    assert line.next_action(view(), 900) is Do.NOTHING
    assert line.next_action(view(out="a2"), 901) is Do.LISTEN, "another outage"
    line = forked()
    assert line.next_action(LineView(True, "a1", 5, True, True, void=True), 200) is Do.END
