"""A copy's turns follow from one list of tasks, and from news."""

from __future__ import annotations

import math

from holdfast.services.worker.unit.turns.turns import Task, Turns, Watched, never


class Copy:
    """Two tasks with times of their own, one that only news make due, and a value that others change."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.trim_ms, self.report_ms = 500.0, 100.0
        self.waits, self.answers = False, 0
        self.asked: list[str] = []
        self.turns = Turns(
            (
                Task("report", lambda _: self.due("report", self.report_ms), lambda _: self.done.append("report")),
                Task("trim", lambda _: self.due("trim", self.trim_ms), lambda _: self.done.append("trim")),
                Task("hold", never, lambda _: self.done.append("hold")),
            ),
            (Watched("answers", lambda: self.waits, lambda: self.answers),),
        )

    def due(self, name: str, ms: float) -> float:
        self.asked.append(name)
        return ms


def test_a_turn_does_every_task_in_its_order() -> None:
    copy = Copy()
    copy.turns.take(0)
    assert copy.done == ["report", "trim", "hold"]


def test_the_next_turn_is_due_when_the_first_task_is() -> None:
    copy = Copy()
    copy.turns.take(0)
    assert copy.turns.next_deadline == 100
    assert not copy.turns.due(99)
    assert copy.turns.due(100)


def test_a_task_that_is_due_at_once_ends_the_question() -> None:
    copy = Copy()
    copy.report_ms = 0
    copy.turns.take(0)
    assert copy.asked == ["report"]
    assert copy.turns.next_deadline == 0


def test_news_make_a_turn_due_at_once_and_the_turn_uses_them_up() -> None:
    copy = Copy()
    assert copy.turns.next_deadline == -math.inf
    copy.turns.take(0)
    copy.turns.wake()
    assert copy.turns.due(1)
    copy.turns.take(1)
    assert not copy.turns.due(2)


def test_a_value_counts_as_news_only_while_somebody_waits_for_it() -> None:
    copy = Copy()
    copy.turns.take(0)
    copy.answers += 1
    assert not copy.turns.due(1)
    copy.waits = True
    copy.turns.take(1)
    assert not copy.turns.due(2)
    copy.answers += 1
    assert copy.turns.due(2)


def test_people_can_ask_what_is_due_when() -> None:
    assert Copy().turns.agenda(0) == [("report", 100), ("trim", 500), ("hold", math.inf)]


def test_a_task_behind_one_that_changes_the_copy_gets_a_new_view() -> None:
    done, seen = [0], list[int]()

    def process(_: int) -> None:
        done[0] += 1

    tasks = (Task("before", never, seen.append), Task("process", never, process, changes=True))
    Turns((*tasks, Task("behind", never, seen.append)), view=lambda _: done[0]).take(0)
    assert seen == [0, 1]
