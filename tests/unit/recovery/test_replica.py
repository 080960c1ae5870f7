"""The shell of a replica on a log in memory: what it tells people and Prometheus of a takeover."""

from __future__ import annotations

import gc
import time
import urllib.request
from collections.abc import Iterator

import pytest
from msgspec import structs
from prometheus_client import generate_latest

from holdfast.schemas import assignments, commands, events, formats, heartbeats, plans
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Goal, job_key, unit_key
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.liveness.detector import OVERHEARD
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.node.machine.ports import choose_pair
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.replica import ECHO_MS, Replica
from tests.unit.recovery import test_replication
from tests.unit.recovery.test_adaptive import costs as cost_of
from tests.unit.recovery.test_replication import budgeted
from tests.unit.recovery.world import UNIT, G, plan

TOPICS = ClusterTopics()
NOW_MS = 5_000


class Shell:
    """A replica fed from a log; time is stopped unless moved."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.log = MemoryLog(lambda: NOW_MS)
        self.log.create(TOPICS.specs())
        names = (TOPICS.heartbeats, TOPICS.assignments, TOPICS.plans, TOPICS.submit, TOPICS.events)
        self._read = {Partition(name, 0): 0 for name in names}
        self.replica = Replica(
            "r1", TOPICS, self.log.appender("r1"), Backlog.of(self.log, self._read), 100, lambda: self.now_us,
            unsealed=lambda: {TOPICS.heartbeats: 2, TOPICS.events: 1},
        )  # fmt: skip
        self.replica.meters()

    def append(self, topic: str, value: bytes) -> None:
        self.log.appender("test").append(Partition(topic, 0), value)
        self.turn()

    def turn(self) -> None:
        """Until nothing new is in the log."""
        found = True
        while found:
            found = False
            for partition, start in self._read.items():
                for message in self.log.scan(partition, start):
                    self._read[partition] = message.offset() + 1
                    self.replica.read(partition, message.offset(), NOW_MS, message.value())
                    found = True

    def skipped(self, topic: str) -> int:
        """Records of the topic that could not be read."""
        return self.replica.refusals.counts[topic]

    def events(self) -> Iterator[Event]:
        for message in self.log.scan(Partition(TOPICS.events, 0)):
            yield events.decode(message.value() or b"")


def beat(worker: str, *copies: CopyState) -> bytes:
    return heartbeats.encode(Heartbeat(worker, "1", NOW_MS, zone=worker, slots=8, decided=10, copies=copies))


@pytest.fixture
def shell() -> Shell:
    """A unit with a hot standby, both at work."""
    made = Shell()
    made.append(TOPICS.plans, plans.encode(plan({"u-0": "hybrid"})))
    copies = Copy("w1", "1", PRIMARY), Copy("w2", "1", Rung.HOT.flags)
    placed = Assignment("controller", NOW_MS, (Change(UNIT, 1, copies, "hybrid", "placed", 3),))
    made.append(TOPICS.assignments, assignments.encode(placed))
    made.append(TOPICS.heartbeats, beat("w1", CopyState(UNIT, 1, "running", 5)))
    made.append(TOPICS.heartbeats, beat("w2", CopyState(UNIT, 1, "synced", 4)))
    return made


def test_an_exit_notice_is_answered_at_once_and_told_with_its_detection_time(shell: Shell) -> None:
    shell.append(TOPICS.heartbeats, heartbeats.encode(Exit("w1", "1", NOW_MS, -9)))
    decided = [one for one in shell.events() if one.kind == "decided"]
    assert [(one.unit, one.epoch) for one in decided] == [("u-0", 2)]
    assert decided[0].phases_ms.keys() == {"detection"}
    assert "the primary is gone" in decided[0].detail


def test_the_period_of_instability_is_told_once_all_is_protected_again_and_prometheus_counts_it(shell: Shell) -> None:
    shell.append(TOPICS.heartbeats, heartbeats.encode(Exit("w1", "1", NOW_MS, -9)))
    epoch = shell.replica.core.known.assigned.epoch(UNIT)
    for step in range(300):
        shell.now_us += 10_000
        if step % 10 == 0:
            for worker, state in (("w2", "running"), ("w3", "synced")):
                epoch = shell.replica.core.known.assigned.epoch(UNIT)
                shell.append(TOPICS.heartbeats, beat(worker, CopyState(UNIT, epoch, state, 5)))
        if step % 5 == 0:
            shell.replica.echo()
        shell.turn()
        shell.replica.turn()
    shell.turn()
    assert [copy.worker for copy in shell.replica.core.known.assigned.units()[UNIT].copies] == ["w2", "w3"]
    (told,) = [one for one in shell.events() if one.kind == "protected-again"]
    assert (told.worker, told.detail) == ("w1", "w1 had failed; units protected again: 1")
    assert 1_000 <= told.phases_ms["instability"] <= 2_000
    found = generate_latest(shell.replica.meters().registry).decode()
    assert "holdfast_instability_seconds_count 1.0" in found
    assert 'phase="instability"' not in found


def test_a_change_that_follows_no_failure_has_no_detection_time(shell: Shell) -> None:
    command = commands.Command("scheme", "job", unit="u-0", scheme="active-standby")
    for _ in range(5):  # the first ones lie before the job in `jobs.submit`
        shell.append(TOPICS.submit, commands.encode(command))
    decided = [one for one in shell.events() if one.kind == "decided"]
    assert decided
    assert all(not one.phases_ms for one in decided)


def test_a_move_is_told_from_its_beginning_to_its_end_with_the_time_it_took(shell: Shell) -> None:
    command = commands.encode(commands.Command("move", "job", unit="u-0", worker="w2"))
    for _ in range(5):
        shell.append(TOPICS.submit, command)
    shell.append(TOPICS.heartbeats, beat("w2", CopyState(UNIT, 2, "running", 5)))
    told = [one for one in shell.events() if one.kind.startswith("move")]
    assert [(one.kind, one.unit, one.epoch, one.worker) for one in told[:2]] == [
        ("move-begins", "u-0", 2, "w1"),
        ("move-done", "u-0", 3, "w2"),
    ]
    assert [list(one.phases_ms) for one in told[:2]] == [[], ["move"]]


def test_a_move_that_is_given_up_or_refused_is_told_with_the_reason(shell: Shell) -> None:
    command = commands.encode(commands.Command("move", "job", unit="u-0", worker="w3"))
    shell.append(TOPICS.heartbeats, beat("w3"))
    for _ in range(4):
        shell.append(TOPICS.submit, command)
    shell.append(TOPICS.submit, command)
    shell.append(TOPICS.heartbeats, heartbeats.encode(Exit("w3", "1", NOW_MS, -9)))
    refused = commands.encode(commands.Command("move", "job", unit="u-0", worker="w1"))
    shell.append(TOPICS.submit, refused)
    told = [(one.kind, one.detail.partition(": ")[0]) for one in shell.events() if one.kind.startswith("move")]
    assert told == [
        ("move-begins", "a move was asked for"),
        ("move-abandoned", "the new copy is gone"),
        ("move-refused", "a move was asked for that cannot be made"),
    ]


def test_a_standby_that_moves_is_told_from_its_beginning_to_its_end(shell: Shell) -> None:
    shell.append(TOPICS.heartbeats, beat("w3"))
    shell.replica.core.known.reassignment.want(UNIT, "w3")
    shell.append(TOPICS.heartbeats, beat("w3"))
    shell.append(TOPICS.heartbeats, beat("w1", CopyState(UNIT, 2, "running", 5)))
    assert [copy.worker for copy in shell.replica.core.known.assigned.units()[UNIT].copies] == ["w1", "w2", "w3"]
    shell.append(TOPICS.heartbeats, beat("w3", CopyState(UNIT, 1, "synced", 5)))
    assert shell.replica.core.known.assigned.epoch(UNIT) == 2, "what it held before says nothing"
    shell.append(TOPICS.heartbeats, beat("w3", CopyState(UNIT, 2, "synced", 5)))
    told = [one for one in shell.events() if one.kind.startswith("standby")]
    assert [(one.kind, one.epoch, one.worker, list(one.phases_ms)) for one in told] == [
        ("standby-moves", 2, "w1", []),
        ("standby-moved", 3, "w1", ["move"]),
    ]


def test_a_unit_whose_standby_has_no_place_is_reported_once_and_again_when_it_has_one(shell: Shell) -> None:
    def pass_s(seconds: float, *most: int) -> None:
        for step in range(round(seconds * 100)):
            shell.now_us += 10_000
            if step % 10 == 0:
                for number, standbys in enumerate(most, 1):
                    epoch = shell.replica.core.known.assigned.epoch(UNIT)
                    state = CopyState(UNIT, epoch, ("running", "synced")[number > 1], 5)
                    beat_ = Heartbeat(
                        f"w{number}", "1", NOW_MS, zone=f"w{number}", slots=8, copies=(state,), standbys=standbys
                    )
                    shell.append(TOPICS.heartbeats, heartbeats.encode(beat_))
            if step % 5 == 0:
                shell.replica.echo()
            shell.turn()
            shell.replica.turn()
        shell.turn()

    pass_s(1.5, 0, 0)
    copies = shell.replica.core.known.assigned.units()[UNIT].copies
    assert [copy.worker for copy in copies] == ["w1"], "its place was taken from it"
    pass_s(2, 0, 0)
    found = generate_latest(shell.replica.meters().registry).decode()
    assert 'holdfast_units_unserved{generation="3-abcdef",job="job"} 1.0' in found
    pass_s(2, 0, 1)
    told = [one for one in shell.events() if one.kind.startswith("standby-has")]
    assert [(one.kind, one.unit) for one in told] == [("standby-has-no-place", "u-0"), ("standby-has-a-place", "u-0")]
    assert told[0].detail == "full: w2; none of their standbys is of a less important unit"


def test_prometheus_sees_phases_units_and_what_was_skipped(shell: Shell) -> None:
    port = choose_pair()
    shell.replica.meters().serve(port)
    soon = 2**42
    shell.append(TOPICS.events, events.encode(Event(soon, "unit-active", phases_ms={"replay": 30.0})))
    shell.append(TOPICS.events, events.encode(Event(1, "unit-active", phases_ms={"replay": 30.0})))
    shell.append(TOPICS.heartbeats, b"{")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = answer.read().decode()
    assert 'holdfast_takeover_phase_seconds_count{phase="replay"} 1.0' in found, "history is not counted again"
    assert 'holdfast_units{scheme="hybrid"} 1.0' in found
    assert 'holdfast_refused_records_total{topic="holdfast.heartbeats"} 3.0' in found, "those without a seal, too"
    assert 'holdfast_refused_records_total{topic="holdfast.events"} 1.0' in found
    assert "holdfast_false_switches_total 0.0" in found
    assert "holdfast_workers 2.0" in found


def test_a_port_that_is_taken_is_no_reason_to_stop(shell: Shell) -> None:
    port = choose_pair()
    shell.replica.meters().serve(port)
    shell.replica.meters().serve(port)


JUNK = (b"", b"\xff", b"{", b"[]", b"null", b'{"type":"heartbeat"}', b'{"author":1}')
"""Records that no reader of any topic can take for its own."""


@pytest.mark.parametrize("topic", [TOPICS.heartbeats, TOPICS.assignments, TOPICS.plans, TOPICS.submit, TOPICS.events])
def test_an_unreadable_record_is_counted_and_skipped_and_those_behind_it_count(shell: Shell, topic: str) -> None:
    written = JUNK if topic != TOPICS.submit else JUNK[:-2]  # there any object is a job
    for bad in written:
        shell.append(topic, bad)
    assert shell.skipped(topic) == len(written)
    shell.append(TOPICS.heartbeats, heartbeats.encode(Exit("w1", "1", NOW_MS, -9)))
    assert shell.replica.core.known.assigned.epoch(UNIT) == 2


def test_an_assignment_of_what_is_no_unit_is_skipped(shell: Shell) -> None:
    copies = (Copy("w1", "1", PRIMARY),)
    for unit in ("", "u-0", "job/u-0", "job@3-abcdef/u/0"):
        record = Assignment("somebody", NOW_MS, (Change(unit, 1, copies),))
        shell.append(TOPICS.assignments, assignments.encode(record))
    assert shell.skipped(TOPICS.assignments) == 4
    assert set(shell.replica.core.known.assigned.units()) == {UNIT}


def test_a_worker_that_was_never_heard_is_given_up_anyway(shell: Shell) -> None:
    """Its heartbeats have gone by age; nobody can say when the last came."""
    copies = Copy("w8", "1", PRIMARY), Copy("w9", "1", Rung.HOT.flags)
    named = Assignment("controller", NOW_MS, (Change(UNIT, 2, copies, "hybrid", "placed", 3),))
    shell.append(TOPICS.assignments, assignments.encode(named))
    for _ in range(400):
        shell.now_us += 10_000
        if shell.now_us % 100_000 == 0:
            shell.append(TOPICS.heartbeats, beat("w2"))
        if shell.now_us % 50_000 == 0:
            shell.replica.echo()
        shell.turn()
        shell.replica.turn()
    decided = next(one for one in shell.events() if one.kind == "decided")
    assert "both copies are gone" in decided.detail
    assert decided.phases_ms == {}


def test_two_workers_of_one_name_are_told_with_both_addresses(shell: Shell) -> None:
    newer, older = (Heartbeat("w9", one, NOW_MS, pid=int(one), address=f"m{one}:/d") for one in ("2", "1"))
    for beat_ in (newer, *[older] * OVERHEARD, newer, older):
        shell.append(TOPICS.heartbeats, heartbeats.encode(beat_))
    (told,) = [event for event in shell.events() if event.kind == "name-clash"]
    assert told.worker == "w9"
    assert "process 2 at m2:/d" in told.detail
    assert "process 1 at m1:/d" in told.detail


PHASES = {"activation": 20.0, "replay": 1.0, "first_output": 60.0, "recovered": 50.0}


def measured(shell: Shell) -> None:
    """The leader has reported what it costs."""
    reported = heartbeats.decode(beat("w1", CopyState(UNIT, 1, "running", 5)))
    costs = structs.replace(cost_of(rate=1_000), unit=UNIT, leads=True)
    shell.append(TOPICS.heartbeats, heartbeats.encode(structs.replace(reported, costs=(costs,))))


def take_over(shell: Shell, **phases: float) -> list[Event]:
    """The leader dies, and the copy that takes over says how long that took; what is said of it."""
    shell.append(TOPICS.heartbeats, heartbeats.encode(Exit("w1", "1", NOW_MS, -9)))
    active = Event(NOW_MS, "unit-active", "job", "u-0", 2, "w2", phases_ms=PHASES | phases)
    shell.append(TOPICS.events, events.encode(active))
    shell.now_us += 200_000
    shell.replica.turn()
    shell.turn()
    return [one for one in shell.events() if one.predicted_ms]


def test_a_takeover_is_judged_by_what_was_measured_before_it(shell: Shell) -> None:
    measured(shell)
    (judged,) = take_over(shell)
    assert (judged.kind, judged.unit, judged.epoch, judged.worker, judged.promise_ms) == (
        "takeover-judged", "u-0", 2, "w2", 0.0,
    )  # fmt: skip
    assert judged.phases_ms.keys() == judged.predicted_ms.keys() == {"detection", "activation", "catching-up", "total"}
    assert judged.phases_ms["activation"] == 20.0
    assert judged.phases_ms["catching-up"] == 30.0
    assert judged.predicted_ms["detection"] == 130.0, "by silence, though a notice came"


def test_a_takeover_that_took_longer_corrects_what_is_estimated_next(shell: Shell) -> None:
    measured(shell)
    take_over(shell, recovered=200.0)
    assert shell.replica.core.known.adaptive.margin(UNIT) > 1.5
    assert b"holdfast_events_total" in generate_latest(shell.replica.meters().registry)


def test_nothing_is_judged_of_a_unit_that_has_measured_nothing(shell: Shell) -> None:
    assert take_over(shell) == []


def test_prometheus_counts_promises_and_has_recoveries_as_predicted_and_as_they_were(shell: Shell) -> None:
    times = {"detection": 100.0, "total": 400.0}
    for kind in ("promise-kept", "promise-broken", "takeover-judged"):
        promise_ms = 0.0 if kind == "takeover-judged" else 300.0
        judged = Event(10**13, kind, "job", "u-0", 2, phases_ms=times, predicted_ms=times, promise_ms=promise_ms)
        shell.append(TOPICS.events, events.encode(judged))
    found = generate_latest(shell.replica.meters().registry).decode()
    for kept in ("true", "false"):
        assert f'holdfast_promises_total{{job="job",kept="{kept}"}} 1.0' in found
    assert 'holdfast_recovery_seconds_count{of="actual"} 3.0' in found
    assert "holdfast_takeover_phase_seconds_count" not in found, "phases are counted as copies report them"


@pytest.mark.slow
def test_no_turn_over_1000_units_takes_20_ms_while_the_planner_works(
    monkeypatch: pytest.MonkeyPatch, no_collector: None
) -> None:
    """Garbage is not looked for meanwhile: that takes as long as there are objects of other tests in this process."""
    monkeypatch.setattr(test_replication, "SOURCES", 1_000)
    monkeypatch.setattr(test_replication, "NAMES", names := [*(f"s-{task}" for task in range(1_000)), "k-0"])
    units = [unit_key("job", G, name) for name in names]
    changes = tuple(Change(unit, 1, (Copy("w", "1", PRIMARY),), "passive") for unit in units)
    shell = Shell()
    shell.append(TOPICS.plans, plans.encode(budgeted(0.4)))
    begun = Assignment("c", 1, changes, goals=(Goal("job", G, "run"),), format=formats.PLANS)
    shell.append(TOPICS.assignments, assignments.encode(begun))
    shell.append(TOPICS.heartbeats, beat("w", *(CopyState(unit, 1, "running", batch=5) for unit in units)))
    spent_s, key = list[float](), job_key("job", G)
    _timed(monkeypatch, Replica, "turn", spent_s)
    known = shell.replica.core.known
    shell.now_us += 1_000_000
    shell.replica.turn()
    assert known.replication._jobs[key].asked_us > 0
    while shell.replica._thinking:
        shell.now_us += 25_000
        shell.replica.turn()
    shell.turn()
    assert known.assigned.replication(key) is not None
    print(f"the longest of {len(spent_s)} turns took {1_000 * max(spent_s):.1f} ms of a processor")
    assert max(spent_s) < 0.020


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def _timed(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, spent_s: list[float]) -> None:
    true = getattr(owner, name)

    def timed(self: object) -> None:
        began_s = time.thread_time()
        true(self)
        spent_s.append(time.thread_time() - began_s)

    monkeypatch.setattr(owner, name, timed)


def test_the_planner_of_replicas_is_asked_beside_the_turns_and_its_plan_is_appended() -> None:
    shell = Shell()
    shell.append(TOPICS.plans, plans.encode(budgeted(0.4)))
    shell.append(TOPICS.assignments, assignments.encode(Assignment("c", 1, (), format=formats.PLANS)))
    made = None
    for _ in range(5):  # the planner may have answered before a turn is over
        shell.now_us += 1_000_000
        shell.replica.turn()
        for question in shell.replica._thinking:
            question.result()
        said = [assignments.decode(one.value() or b"") for one in shell.log.scan(Partition(TOPICS.assignments, 0))]
        made = next((plan for record in said for plan in record.replications), made)
    assert made is not None
    assert (made.number, len(made.units), made.fidelity) == (1, 2, 0.25)
    shell.turn()
    assert shell.replica.core.known.assigned.replication(made.job_key) == made


def test_a_replica_sends_itself_a_heartbeat_only_where_it_has_heard_none_for_50_ms(shell: Shell) -> None:
    def echoes() -> int:
        log = shell.log.scan(Partition(TOPICS.heartbeats, 0))
        return sum(isinstance(heartbeats.decode(message.value() or b""), heartbeats.Echo) for message in log)

    def pass_ms(ms: int, beats: bool) -> None:
        for passed in range(ms):
            shell.now_us += 1_000
            if beats and passed % 40 == 0:
                shell.append(TOPICS.heartbeats, beat("w1", CopyState(UNIT, 1, "running", 5)))
            shell.replica.echo()
            shell.turn()

    pass_ms(400, beats=True)
    assert echoes() == 0
    pass_ms(400, beats=False)
    assert 7 <= echoes() <= 8


def test_heartbeats_of_others_keep_the_clock_of_a_replica_going(shell: Shell) -> None:
    """And without any heartbeat it stands."""
    attention = shell.replica.core.known.attention
    before_us = attention.attentive_us
    for _ in range(40):
        shell.now_us += 10_000
        if shell.now_us % 40_000 == 0:
            shell.append(TOPICS.heartbeats, beat("w1", CopyState(UNIT, 1, "running", 5)))
        shell.turn()
        shell.replica.turn()
    assert attention.attentive_us - before_us >= 350_000
    before_us = attention.attentive_us
    for _ in range(40):
        shell.now_us += 10_000
        shell.replica.turn()
    assert attention.attentive_us - before_us <= ECHO_MS * 1000


def test_a_worker_that_is_silent_since_the_replica_itself_stood_is_found_as_soon_as_any(shell: Shell) -> None:
    """What came meanwhile is read afterwards, so the broker was there: nobody waits for its clients to return."""

    def pass_ms(ms: int, *workers: str) -> None:
        for passed in range(0, ms, 10):
            shell.now_us += 10_000
            if passed % 100 == 0:
                for worker, state in ((one, "running" if one == "w1" else "synced") for one in workers):
                    shell.append(TOPICS.heartbeats, beat(worker, CopyState(UNIT, 1, state, 5)))
            shell.replica.echo()
            shell.turn()
            shell.replica.turn()

    pass_ms(2_000, "w1", "w2")
    shell.now_us += 2_000_000
    pass_ms(800, "w2")
    assert shell.replica.core.known.assigned.epoch(UNIT) == 1, "where this process stood, others may have"
    pass_ms(400, "w2")
    assert shell.replica.core.known.assigned.units()[UNIT].committer == Copy("w2", "1", PRIMARY)
