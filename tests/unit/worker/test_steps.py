"""The longest step, on the clock and in CPU time."""

from __future__ import annotations

from holdfast.services.worker.unit.facts.steps import Steps


def test_the_longest_of_each_is_kept_until_it_is_told() -> None:
    clock = {"wall": 0.0, "cpu": 0.0}
    steps = Steps(lambda: clock["wall"], lambda: clock["cpu"])
    for wall, cpu in ((2.0, 2.0), (9.0, 0.5), (3.0, 1.0)):
        with steps.step():
            clock["wall"] += wall
            clock["cpu"] += cpu
        clock["wall"] += 100
    assert (steps.longest_ms, steps.longest_cpu_ms) == (9.0, 2.0)
    steps.restart()
    with steps.step():
        clock["wall"] += 1
    assert (steps.longest_ms, steps.longest_cpu_ms) == (1.0, 0.0)
