"""Recordings of machines that are made up: what happens there, and what the detector makes of it."""

from __future__ import annotations

from bench.research.detectors.made_up import MACHINES, RETURN_MS, WORKERS, Machine, Standing, found, made


def test_on_a_machine_where_nothing_else_is_stopped_each_freeze_is_found_and_nothing_else() -> None:
    recording = made(Machine(), 1, 1.5)
    one = found(recording, 1.5)
    assert len(one.took_ms) == sum(map(len, recording.frozen.values())) == 3
    assert all(ms is not None and ms < 300 for ms in one.took_ms)
    assert (one.false, one.returning) == (0, 0)


def test_the_same_seed_makes_the_same_recording() -> None:
    machine = MACHINES["starved, outages"]
    assert made(machine, 1, 0.5) == made(machine, 1, 0.5) != made(machine, 2, 0.5)


def test_nothing_is_heard_in_an_outage_and_each_client_returns_after_it() -> None:
    recording = made(Machine(outages_per_h=60), 1, 5)
    assert recording.away["a"]
    for worker in WORKERS:
        for begin, end in recording.away[worker]:
            away = [one for one in recording.turns if begin < one.at_us / 1000 < end][2:]
            assert not any((worker, "1") in one.beats for one in away)
            assert not any(one.beats for one in away if one.at_us / 1000 < end - RETURN_MS)


def test_a_process_that_is_stopped_runs_again_at_the_end_of_what_holds_it() -> None:
    one = Standing([(30, 40), (10, 20), (15, 25)])
    assert one.spans == [(10, 25), (30, 40)]
    assert [one.free(at_ms) for at_ms in (5, 10, 24, 25, 39, 40)] == [5, 25, 25, 25, 40, 40]
