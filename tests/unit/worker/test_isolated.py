"""Code in a process of its own gives what it gives in the worker, and costs that process alone when it breaks it."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from msgspec import structs

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK, RaisedRows, TaskRaised
from holdfast.schemas.plans import OperatorPlan, UnitPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.errors import Divergence, InvalidRecord, Retriable
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.raises import NOTHING
from holdfast.services.kernel.operators.user_code import CodeUnavailable
from holdfast.services.kernel.plans.layout import TaskLayout, UnitLayout
from holdfast.services.kernel.state.forked import ForkedStore
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.worker.isolated import messages
from holdfast.services.worker.isolated.code import MOST_CRASHES, CodeCrashed, IsolatedCode
from holdfast.services.worker.isolated.code_process import CodeProcess
from holdfast.services.worker.isolated.isolation import Isolation
from holdfast.services.worker.unit.tentative import line_code as tentative_code
from holdfast.services.worker.unit.tentative.line_code import LineCode
from tests.support.deadlines import HANG_S
from tests.support.isolated import FIELDS

pytestmark = pytest.mark.slow

MODULE = "tests.support.isolated"
TASK = "o-0"
PATIENT = Isolation(patience_s=600.0)


def planned(name: str, isolation: str = "process", key: Sequence[str] = (), **params: Any) -> OperatorPlan:
    settings = {"python": f"{MODULE}:{name}", "params": params, "key": list(key), "isolation": isolation}
    described = settings | {"params": {k: v for k, v in params.items() if k != "loading"}}
    fields = dict(catalogue.describe("python", described, [Stream(FIELDS)]).fields)
    return OperatorPlan("o", "python", 1, ("in",), settings, fields)


def with_params(plan: OperatorPlan, **more: Any) -> OperatorPlan:
    return structs.replace(plan, params=plan.params | more)


def layout_of(plan: OperatorPlan) -> UnitLayout:
    return UnitLayout(UnitPlan(TASK, 0, ("o",), 0), (TaskLayout(TASK, 0, plan, (), (FIELDS,), (), None),))


class Harness:
    """A task over batches, with state in memory. build: None: in this process."""

    def __init__(self, plan: OperatorPlan, build: catalogue.Build = catalogue.build) -> None:
        self._plan, self._build = plan, build
        self._image, self._names, self.batch = MemoryImage(), list[str](), 0
        self.watermark = NO_WATERMARK
        self.open()

    def open(self) -> None:
        self.store = StateStore(self._image, self._names)
        self._operator: Operator = self._build(self._plan, [FIELDS], self.store.of_task(TASK))

    def run(
        self,
        rows: Sequence[tuple[Any, ...]],
        watermark: int | None = None,
        raised: TaskRaised | None = None,
        clock_us: int = 0,
    ) -> Outcome:
        """rows: (key, n), at times 1, 2, ... raised: where the cut log says that the code raises."""
        before, self.watermark = self.watermark, self.watermark if watermark is None else watermark
        frame = pl.DataFrame([(*row, at) for at, row in enumerate(rows, 1)], stream_schema(FIELDS), orient="row")
        context = BatchContext(self.batch + 1, before, self.watermark, raised, clock_us=clock_us)
        outcome = self._operator.on_batch([frame], context)
        self.batch += 1
        return outcome

    def checkpoint(self) -> list[Any]:
        """What a run would hold, in its order; as after a failover the task begins again with the image of that."""
        capture, found = self.store.capture(), list[Any]()
        while piece := capture.piece(100):
            self._image.apply(piece)
            found += piece
        self.store.settle()
        self._names = self.store.names
        self.open()
        return [self._names, found]


@pytest.fixture
def started() -> Iterator[Callable[..., IsolatedCode]]:
    """Starts the code of a plan; all ends with the test."""
    made: list[IsolatedCode] = []

    def start(plan: OperatorPlan, rules: Isolation = PATIENT) -> IsolatedCode:
        code = IsolatedCode(layout_of(plan), rules, lambda: False, lambda batch: f"in[0] {batch}-{batch}")
        made.append(code)
        code.start()
        return code

    yield start
    for code in made:
        code.close()


def gone(pid: int) -> bool:
    """Once the process has ended, waited for without asking again and again."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    found = bool(poll.poll(HANG_S * 1000))
    os.close(descriptor)
    return found


# -- a line of tentative batches ---------------------------------------------------------------------------------------


def test_the_code_of_a_line_has_a_process_of_its_own_and_leaves_the_stable_one_as_it_was(
    started: Callable[..., IsolatedCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned("Tally")
    stable, made = started(plan), list[IsolatedCode]()

    def code_of(*_: object) -> IsolatedCode:
        made.append(IsolatedCode(layout_of(plan), PATIENT, lambda: False, str))
        return made[-1]

    class Now:
        @staticmethod
        def run(call: Callable[[], Any], done: Callable[[Any], None], key: str) -> None:
            done(call())

    monkeypatch.setattr(tentative_code, "code_of", code_of)
    beside = SimpleNamespace(traces=SimpleNamespace(beside=lambda key, what, call: call))
    around, job = SimpleNamespace(restores=Now, doing=beside), SimpleNamespace(key=lambda unit: unit)
    line = LineCode(cast(Any, job), layout_of(plan), cast(Any, around))
    assert not line.ready
    line.start(pytest.fail)
    assert line.ready
    alone, forking = Harness(plan), Harness(plan, stable.build)
    for run in (alone, forking):
        run.run([("a", 2), ("b", 2)])
    fork = ForkedStore(forking.store)
    task = line.build(plan, [FIELDS], fork.of_task(TASK))
    ahead = pl.DataFrame([("a", 2, 1)] * 5, stream_schema(FIELDS), orient="row")
    assert task.on_batch([ahead], BatchContext(2, NO_WATERMARK, NO_WATERMARK, None)).rows["count"].to_list()[-1] == 6
    assert made[0].pids != stable.pids
    found = [run.run([("a", 2), ("b", 2)]).rows["count"].to_list() for run in (alone, forking)]
    assert found == [[2, 2], [2, 2]]
    assert alone.checkpoint() == forking.checkpoint()
    (pid,) = made[0].pids.values()
    line.close()
    assert gone(pid)
    assert not line.ready


# -- the same results -------------------------------------------------------------------------------------------------


def made_batches(seed: int) -> Iterator[tuple[list[tuple[str, int | None]], int | None]]:
    chance, watermark = random.Random(seed), 0
    for _ in range(30):
        count = chance.choice([0, 1, 7, 40])
        rows = [(chance.choice("abcdefghij"), chance.choice([None, -3, 0, 1, 2, 3, 5])) for _ in range(count)]
        watermark += chance.choice([0, 10])
        yield rows, watermark if chance.random() < 0.5 else None
    yield [], END_WATERMARK


@pytest.mark.parametrize(("seed", "key"), [(1, ()), (2, ("key",)), (3, ("key", "n"))])
def test_rows_dead_letters_and_state_are_those_of_code_in_the_worker(
    started: Callable[..., IsolatedCode], seed: int, key: tuple[str, ...]
) -> None:
    plan = planned("Tally", key=key)
    here, there = Harness(plan), Harness(plan, started(plan).build)
    told_here, told_there = Harness(plan), Harness(plan, started(plan).build)
    codec = RowCodec(stream_schema(plan.fields))
    for number, (rows, watermark) in enumerate(made_batches(seed)):
        one = here.run(rows, watermark)
        raised = one.raised or NOTHING
        others = there.run(rows, watermark), *(told.run(rows, watermark, raised) for told in (told_here, told_there))
        for other in others:
            assert codec.encode(one.rows) == codec.encode(other.rows)
            assert (one.refused, one.raised) == (other.refused, other.raised)
        if number % 7 == 6:
            assert here.checkpoint() == there.checkpoint()
            assert told_here.checkpoint() == told_there.checkpoint()
    assert here.checkpoint() == there.checkpoint()
    assert told_here.checkpoint() == told_there.checkpoint()


@pytest.mark.parametrize("rows", [[("a", 1), ("b", -1)], []])
def test_a_contradiction_of_the_cut_log_is_said_in_the_same_words(
    started: Callable[..., IsolatedCode], rows: list[tuple[str, int]]
) -> None:
    plan, said = planned("Tally"), list[str]()
    for one in (Harness(plan), Harness(plan, started(plan).build)):
        with pytest.raises(Divergence) as caught:
            one.run(rows, raised=TaskRaised((RaisedRows(0, 1, 0),), ("because",)))
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(("on_error", "error"), [("fail", InvalidRecord), ("retry", Retriable)])
def test_an_error_of_the_code_is_raised_here_in_the_same_words(
    started: Callable[..., IsolatedCode], on_error: str, error: type[Exception]
) -> None:
    plan = with_params(planned("Tally"), on_error=on_error)
    here, there = Harness(plan), Harness(plan, (code := started(plan)).build)
    pids, said = code.pids, []
    for one in (here, there):
        with pytest.raises(error) as caught:
            one.run([("a", 1), ("b", -1)])
        said.append((type(caught.value), str(caught.value)))
        assert one.run([("a", 1)]).rows["count"].to_list() == [1], "nothing is left of it"
    assert said[0] == said[1]
    assert code.pids == pids, "the process lives"


def test_an_error_of_on_watermark_is_raised_here(started: Callable[..., IsolatedCode]) -> None:
    plan = planned("Tally", raises_late=True)
    there = Harness(plan, started(plan).build)
    there.run([("a", 1)])
    there.run([("b", 1)])
    with pytest.raises(InvalidRecord, match="raised in batch 3: ValueError: too late"):
        there.run([], watermark=5)


def test_with_an_older_image_nothing_that_the_process_knew_counts(started: Callable[..., IsolatedCode]) -> None:
    plan = planned("Tally")
    task = Harness(plan, started(plan).build)
    task.run([("a", 1)])
    task.checkpoint()
    assert task.run([("a", 1)]).rows["count"].to_list() == [2]
    task.open()
    assert task.run([("a", 1)]).rows["count"].to_list() == [2]


def test_a_table_of_many_pages_is_read(started: Callable[..., IsolatedCode]) -> None:
    plan = planned("Big")
    there = Harness(plan, started(plan).build)
    there.run([("a", 1)])
    there.checkpoint()
    (row,) = there.run([("b", 1)]).rows.to_dicts()
    assert (row["entries"], row["bytes"]) == (100, 10_000_000)


def test_an_operator_without_isolation_is_the_catalogue_s() -> None:
    plan = planned("Tally", isolation="none")
    code = IsolatedCode(layout_of(plan), PATIENT, lambda: False, str)
    code.start()
    assert code.pids == {}
    assert type(Harness(plan, code.build)._operator) is type(Harness(plan)._operator)


def test_without_rules_such_as_in_try_all_code_runs_here() -> None:
    plan = planned("Tally")
    code = IsolatedCode(layout_of(plan), None, lambda: False, str)
    code.start()
    assert code.pids == {}
    assert type(Harness(plan, code.build)._operator) is type(Harness(plan)._operator)


# -- a process that breaks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "how"),
    [
        ("exits", "ended with status 3"),
        ("leaves", "ended with status 4"),
        ("leaves a child behind", "ended with status 5"),
        ("is killed", r"was ended by signal 9 \(SIGKILL\)"),
        ("segfaults", r"was ended by signal 11 \(SIGSEGV\)"),
        ("babbles", "was ended: it sent what is no message: a header that begins with b'xxxxxxxx'"),
        ("lies", "was ended: it sent what is no message: .* bytes said to be in a region of"),
        ("speaks nonsense", "was ended: it sent what is no message"),
    ],
)
def test_a_batch_that_ends_its_process_has_changed_nothing_and_is_tried_again(
    started: Callable[..., IsolatedCode], tmp_path: Path, deed: str, how: str
) -> None:
    plan = planned("Obeys", once=str(tmp_path / "once"))
    task = Harness(plan, (code := started(plan)).build)
    task.run([("a", 1)])
    task.checkpoint()
    task.run([("b", 1)])
    began = time.monotonic()
    with pytest.raises(CodeCrashed, match=f"the process of the code of o-0 {how}.*, in batch 3"):
        task.run([("c", 1), (deed, 1)])
    assert time.monotonic() - began < PATIENT.patience_s / 2, "its patience is not waited for"
    assert task.store.changed == 1
    assert not code.pids
    code.start()
    task.checkpoint()
    assert task.run([("c", 1), (deed, 1)]).rows["key"].to_list() == ["c", deed]


def test_the_third_crash_in_a_row_at_a_batch_ends_it_with_the_records(started: Callable[..., IsolatedCode]) -> None:
    plan = planned("Obeys")
    task = Harness(plan, (code := started(plan)).build)
    task.run([("a", 1)])
    for _ in range(MOST_CRASHES):
        code.start()
        task.open()
        with pytest.raises(CodeCrashed):
            task.run([("exits", 1)])
    with pytest.raises(InvalidRecord) as caught:
        code.start()
    assert str(caught.value) == (
        "the process of the code of o-0 ended with status 3, in batch 2, 3 times in a row; its records: in[0] 2-2"
    )
    assert not isinstance(caught.value, Retriable)


def test_a_crash_is_forgotten_once_its_batch_is_done(started: Callable[..., IsolatedCode], tmp_path: Path) -> None:
    plan = planned("Obeys", once=str(tmp_path / "once"))
    task = Harness(plan, (code := started(plan)).build)
    for _ in range(2 * MOST_CRASHES):
        with pytest.raises(CodeCrashed):
            task.run([("exits", 1)])
        code.start()
        task.open()
        task.run([("exits", 1)])
        task.batch -= 1  # as after a restore
        (tmp_path / "once").unlink()


def test_a_process_that_hangs_is_ended_and_says_where(
    started: Callable[..., IsolatedCode], capfd: pytest.CaptureFixture[str]
) -> None:
    plan = planned("Obeys")
    for deed in ("hangs", "stops midway"):
        task = Harness(plan, started(plan, Isolation(patience_s=0.3)).build)
        with pytest.raises(CodeCrashed, match=r"was ended: it took longer than 0\.3 s, as HOLDFAST_LOOP_PATIENCE_S al"):
            task.run([(deed, 1)])
    assert "in _hangs" in capfd.readouterr().err


def test_a_process_that_fills_the_memory_is_ended(started: Callable[..., IsolatedCode]) -> None:
    plan = planned("Obeys")
    task = Harness(plan, started(plan, Isolation(patience_s=60.0, memory_mb=500)).build)
    task.run([("a", 1)])
    with pytest.raises(CodeCrashed, match=r"its memory is \d+ MiB, near the limit HOLDFAST_MEMORY_MB=500, in batch 2"):
        task.run([("fills", 1)])


def test_a_process_that_was_killed_between_two_batches_is_a_crash_of_the_next(
    started: Callable[..., IsolatedCode],
) -> None:
    plan = planned("Obeys")
    task = Harness(plan, (code := started(plan)).build)
    os.kill(code.pids[TASK], signal.SIGKILL)
    with pytest.raises(CodeCrashed, match=r"SIGKILL.*in batch 1"):
        task.run([("a", 1)])
    code.start()
    task.open()
    task.run([("a", 1)])


def test_a_broken_store_is_no_crash_and_leaves_no_process_in_the_middle(
    started: Callable[..., IsolatedCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned("Tally")
    task = Harness(plan, (code := started(plan)).build)

    def broken(*_: object) -> None:
        raise Retriable("the store is gone")

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.services.kernel.state.keyed.StateTable.get_many", broken)
        with pytest.raises(Retriable, match="the store is gone"):
            task.run([("a", 1)])
    assert not code.pids
    code.start()
    task.open()
    assert task.run([("a", 1)]).rows["count"].to_list() == [1]


def test_code_that_ends_its_process_when_it_is_loaded_is_tried_three_times(
    started: Callable[..., IsolatedCode],
) -> None:
    plan = planned("Obeys", loading="exits")
    code = IsolatedCode(layout_of(plan), PATIENT, lambda: False, str)
    for _ in range(MOST_CRASHES):
        with pytest.raises(CodeCrashed, match=r"ended with status 3, while it loaded the code"):
            code.start()
    with pytest.raises(InvalidRecord, match=r"3 times in a row$"):
        code.start()


def test_code_that_cannot_be_loaded_or_has_changed_says_so(started: Callable[..., IsolatedCode]) -> None:
    plan = planned("Declares", columns={"x": "int"})
    plan = with_params(plan, params={})
    with pytest.raises(CodeUnavailable, match=r"does not take the params {}: LookupError: no columns"):
        started(plan)
    plan = with_params(plan, params={"columns": {"y": "int"}})
    with pytest.raises(CodeUnavailable, match=r"puts out {'y': 'int'} here, and put out {'x': 'int'} when the job"):
        started(plan)
    with pytest.raises(CodeUnavailable, match="allow-list"):
        started(planned("Tally"), Isolation(allow=("others",)))


# -- its surroundings -------------------------------------------------------------------------------------------------


def test_isolated_code_has_no_file_of_the_worker_and_no_setting_of_the_cluster(
    started: Callable[..., IsolatedCode], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_CLUSTER_SECRET", "a secret")
    connection, _other = socket.socketpair()
    connection.set_inheritable(True)
    plan = planned("Obeys")
    with (tmp_path / "ours").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        task = Harness(plan, started(plan).build)
        rows = task.run([("files", 1), ("environment", 1)]).rows
    files, environment = rows["note"]
    assert str(tmp_path) not in files
    assert files.count("socket:") <= 1 + sum("socket:" in os.readlink(f"/proc/self/fd/{fd}") for fd in (1, 2))
    hashed = [sys.executable, "-c", "print(hash('a'))"]
    seeded = subprocess.run(hashed, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
    assert environment == f"0 1 1 {seeded.stdout.strip()} {{}}"


def test_an_isolated_process_ends_when_it_is_closed_and_not_by_a_signal_to_the_worker(
    started: Callable[..., IsolatedCode],
) -> None:
    plan = planned("Obeys")
    task = Harness(plan, (code := started(plan)).build)
    pid = code.pids[TASK]
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGINT)
    task.run([("a", 1)])
    code.close()
    assert gone(pid)
    with pytest.raises(CodeCrashed, match="had ended before"):
        task.run([("a", 1)])
    with pytest.raises(CodeCrashed, match="not needed any more"):
        code.start()


WORKER = """
import sys, time
from tests.unit.worker.test_isolated import PATIENT, Harness, IsolatedCode, layout_of, planned
plan = planned("Obeys")
code = IsolatedCode(layout_of(plan), PATIENT, lambda: False, str)
code.start()
print(code.pids["o-0"], flush=True)
Harness(plan, code.build).run([(sys.argv[1], 1)])
print("rests", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("deed", ["nothing", "says so and hangs"])
def test_an_isolated_process_dies_with_its_worker(deed: str) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, deed], stdout=subprocess.PIPE, cwd=Path.cwd())
    assert worker.stdout is not None
    pid = int(worker.stdout.readline())
    assert worker.stdout.readline().strip() in (b"rests", b"hangs")
    with suppress(ProcessLookupError):
        worker.kill()
    worker.wait()
    worker.stdout.close()
    assert gone(pid)


def test_a_process_can_be_closed_before_it_runs() -> None:
    process = CodeProcess(messages.Open(planned("Tally"), FIELDS, TASK), PATIENT)
    process.close()
    assert process.pid is None


def test_timers_by_the_time_of_day_fire_in_a_process_of_their_own_in_batches_without_rows(
    started: Callable[..., IsolatedCode],
) -> None:
    plan = with_params(planned("Waits"), clock=True)
    here, there = Harness(plan), Harness(plan, started(plan).build)
    for rows, clock_us in (([("a", 1)], 100), ([], 105), ([], 110), ([("b", 1)], 90), ([], 121)):
        found = [one.run(rows, clock_us=clock_us).rows.rows() for one in (here, there)]
        assert found[0] == found[1]
        assert [row[0] for row in found[0]] == {110: ["a"], 121: ["b"]}.get(clock_us, [])
    assert here.checkpoint() == there.checkpoint()
