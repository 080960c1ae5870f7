"""Rows that go to Parquet files: each batch is there once, wherever a copy is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.dataset as ds
import pytest

from holdfast.schemas.dead_letters import decode
from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.hosting.blocking import Inline
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.kernel.errors import Fenced, InvalidRecord, NoFolder, Refused
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryLog, MemoryTransactor
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.sinks import folders, parquet_folder
from holdfast.services.worker.sinks.delivery import Delivery, History
from holdfast.services.worker.sinks.meter import Meter
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka
from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.position import Positions
from holdfast.services.worker.sinks.refusals import MOST_REFUSALS, Refusals
from holdfast.services.worker.sinks.staged_files import StagedFiles
from holdfast.services.worker.sinks.unit_sinks import UnitSinks

TOPICS = ClusterTopics().job("job", "0-abcdef")
FIELDS = {"n": "int", "carrier": "string?"}
BATCHES = range(1, 6)


class Killed(BaseException):
    """The process is gone, in the middle of what it did."""


def sink(folder: Path, *by: str, fields: dict[str, str] | None = None) -> TaskLayout:
    parquet = {"path": str(folder), "partition_by": list(by)}
    params = {"query": "q", "topic": "", "partitions": 1, "parquet": parquet}
    return TaskLayout(
        "sink-q-0", 0, OperatorPlan("sink-q", "sink", 1, ("s",), params, fields or FIELDS), (), (), (), None
    )


def topic_sink() -> TaskLayout:
    params = {"query": "t", "topic": "out", "partitions": 1}
    return TaskLayout("sink-t-0", 0, OperatorPlan("sink-t", "sink", 1, ("s",), params, FIELDS), (), (), (), None)


def rows_of(number: int) -> pl.DataFrame:
    """The rows of a batch: a function of its number. Every third has none."""
    count = 3 if number % 3 else 0
    carriers = ["UA", "AA/B %", None][:count]
    return pl.DataFrame({"n": [10 * number + one for one in range(count)], "carrier": carriers}, schema=schema(FIELDS))


EXPECTED = sorted(one for number in BATCHES for one in rows_of(number)["n"].to_list())


class Site:
    """A unit with a sink of files, and one of a topic, whose copies follow each other."""

    def __init__(self, folder: Path, *by: str) -> None:
        self.folder, self.tasks = folder, [sink(folder, *by), topic_sink()]
        self.log, self.beside = MemoryLog(lambda: 0), Inline()
        self.log.create([TopicSpec("out"), TopicSpec(TOPICS.dead_letters), TopicSpec(TOPICS.delivered)])
        self.errors: list[Exception] = []
        self.spent, self.now_ms, self.refusals = Spent(), 0.0, Refusals()

    def copy(self, dead_letters: bool = True, opened: bool = True) -> Delivery:
        """A copy that has opened its outputs, and fenced earlier copies; or a standby, prepared to open them."""
        at = Partition(TOPICS.delivered, 0)
        positions = Positions(self.log, "u", at, Partition(TOPICS.cuts, 0), (), lambda: 100, lambda *_: None)
        meter = Meter(self.spent, lambda: self.now_ms, lambda: 0.0)
        outside = OutsideKafka(StagedFiles(self.tasks[:1], "job.0-abcdef", pause=lambda _: None))
        made = Delivery(
            self.log, self.beside, UnitSinks(TOPICS, "u", dead_letters=dead_letters, outside=outside), positions,
            failed=self.errors.append, meter=meter, history=History(self.refusals),
        )  # fmt: skip
        if opened:
            made.open(lambda _: None)
        else:
            made.prepare()
        self.beside.poll()
        return made

    def deliver(self, copy: Delivery, *numbers: int, rows: Callable[[int], pl.DataFrame] = rows_of) -> None:
        copy.deliver(*(Batch(one, [SinkRows(task, rows(one), 0) for task in self.tasks], []) for one in numbers))
        while self.beside.poll():
            pass

    def numbers(self) -> list[int]:
        """Column n of all that a reader of the folder finds."""
        return sorted(ds.dataset(self.folder, format="parquet", partitioning="hive").to_table()["n"].to_pylist())

    def aside(self) -> list[str]:
        """Names of what is not the reader's, without the marker."""
        return [one.name for one in (self.folder / parquet_folder.ASIDE).glob("*/*") if one.name != "published.json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folders.allow(str(tmp_path))
    return tmp_path / "made" / "delays"


def killing_at(step: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kills the process before and behind the calls that change something, at the step of this number."""
    done: list[str] = []

    def around(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **given: Any) -> Any:
            found: Any = None
            for when in ("before", "behind"):
                if len(done) == step:
                    raise Killed(f"{when} {name}")
                done.append(f"{when} {name}")
                found = call(*args, **given) if when == "before" else found
            return found

        return counted

    monkeypatch.setattr(os, "replace", around("replace", os.replace))
    monkeypatch.setattr(shutil, "rmtree", around("rmtree", shutil.rmtree))
    monkeypatch.setattr(pl.DataFrame, "write_parquet", around("write", pl.DataFrame.write_parquet))
    monkeypatch.setattr(MemoryTransactor, "commit", around("commit", MemoryTransactor.commit))
    return done


@pytest.mark.slow
def test_every_batch_is_there_once_wherever_a_copy_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kills = 0
    for step in range(500):
        site = Site(folder / str(step), "carrier")
        copy = site.copy()
        with monkeypatch.context() as patched:
            done = killing_at(step, patched)
            try:
                site.deliver(copy, *BATCHES[:2])
                site.deliver(copy, *BATCHES[2:4])
            except Killed:
                kills += 1
        site.beside = Inline()
        site.deliver(site.copy(), *BATCHES)
        assert site.errors == []
        assert site.numbers() == EXPECTED, done[-1:]
        assert len(list(site.log.scan(Partition("out", 0)))) == len(EXPECTED)
        assert site.aside() == [], done[-1:]
        if kills == step:  # this one was not reached
            break
    assert kills > 15


def test_a_copy_that_was_thought_dead_adds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has staged, or committed, and continues once its successor has delivered more."""
    for frozen_at in ("commit", "publish"):
        site = Site(folder / frozen_at)
        late, resumed = site.copy(), list[Callable[[], Any]]()
        target: Any = MemoryTransactor if frozen_at == "commit" else parquet_folder.ParquetFolder
        call = getattr(target, frozen_at)
        with monkeypatch.context() as patched:

            def freeze(*args: Any, call: Callable[..., Any] = call, to: Any = resumed) -> Any:
                to.append(lambda: call(*args))
                raise Killed

            patched.setattr(target, frozen_at, freeze)
            with pytest.raises(Killed):
                site.deliver(late, *BATCHES[:2])
        site.beside = Inline()
        successor = site.copy()
        site.deliver(successor, *BATCHES[:2])
        with pytest.raises(Fenced) if frozen_at == "commit" else nullcontext():
            resumed[0]()
        site.deliver(successor, *BATCHES[2:])
        assert site.numbers() == EXPECTED
        site.deliver(site.copy(), *BATCHES)
        assert site.numbers() == EXPECTED


def test_a_copy_that_closes_moves_the_files_that_are_committed_and_no_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is cancelled has no copy that would open its outputs."""
    site = Site(folder)
    with monkeypatch.context() as patched:

        def killed(*_: Any) -> None:
            raise Killed

        patched.setattr(parquet_folder.ParquetFolder, "publish", killed)
        leader = site.copy()
        with pytest.raises(Killed):
            site.deliver(leader, *BATCHES[:2])
    site.beside = Inline()
    (folder / parquet_folder.ASIDE / "job.0-abcdef.sink-q-0" / "staged").mkdir()
    standby = site.copy(opened=False)
    standby.close()
    while site.beside.poll():
        pass
    assert site.numbers() == [10, 11, 12, 20, 21, 22]
    assert site.aside() == ["staged"]


def test_values_come_back_as_they_were_and_folders_name_values(folder: Path) -> None:
    fields = {"day": "date?", "flag": "bool", "carrier": "string?", "d": "decimal(10,2)?", "l": "list<int>",
              "t": "timestamp", "s": "struct<a: int?>", "b": "bytes"}  # fmt: skip
    rows = pl.DataFrame(
        {
            "day": [date(2026, 1, 31), None],
            "flag": [True, False],
            "carrier": ["AA/B %=ü", ""],
            "d": [Decimal("1.25"), None],
            "l": [[1, 2], []],
            "t": [0, 1],
            "s": [{"a": 1}, {"a": None}],
            "b": [b"\xff", b""],
        },
        schema_overrides={"d": pl.Decimal(10, 2), "t": pl.Datetime("us", "UTC"), "l": pl.List(pl.Int64)},
    )
    site = Site(folder)
    site.tasks = [sink(folder, "day", "flag", "carrier", fields=fields)]
    site.deliver(site.copy(), 1, rows=lambda _: rows)
    found = sorted(str(one.parent.relative_to(folder)) for one in folder.glob("*/*/*/*.parquet"))
    assert found == [
        "day=2026-01-31/flag=true/carrier=AA%2FB %25%3D%C3%BC",
        "day=__HIVE_DEFAULT_PARTITION__/flag=false/carrier=",
    ]
    (first,) = folder.glob("day=2026-01-31/*/*/*.parquet")
    assert first.name == "job.0-abcdef.sink-q-0.000000000001-000000000001.parquet"
    assert pl.read_parquet(first, hive_partitioning=False).equals(rows[:1].drop("day", "flag", "carrier"))


def test_a_row_whose_value_names_no_folder_is_a_dead_letter(folder: Path) -> None:
    given = pl.DataFrame({"n": [1, 2, 3], "carrier": ["UA", "ü" * 60, None]})
    site = Site(folder, "carrier")
    site.tasks = site.tasks[:1]
    copy = site.copy()
    site.deliver(copy, 1, rows=lambda _: given)
    (letter,) = [decode(one.value() or b"") for one in site.log.scan(Partition(TOPICS.dead_letters, 0))]
    assert (letter.row, letter.batch) == ('{"n":2,"carrier":"' + "ü" * 60 + '"}', 1)
    assert letter.reason == "its value of carrier names no folder: 255 bytes are the most"
    assert (site.numbers(), copy.too_large, copy.rows) == ([1, 3], 1, 3)
    strict = Site(folder / "strict", "carrier")
    strict.deliver(strict.copy(dead_letters=False), 1, rows=lambda _: given)
    assert isinstance(strict.errors[0], InvalidRecord)


def test_a_folder_that_is_not_allowed_or_another_one_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    site = Site(folder)
    site.deliver(site.copy(), 1)
    (aside,) = (folder / parquet_folder.ASIDE).glob("*")
    last = {"sink-q-0": "1-0123456789abcdef"}
    with pytest.raises(NoFolder, match=r"are committed and not in .*Mount the same one on every worker"):
        StagedFiles(site.tasks[:1], "job.0-abcdef").open(last)
    assert aside.exists()
    folders.allow(str(tmp_path / "elsewhere"))
    site.copy()
    assert "HOLDFAST_FILES names " in str(site.errors[0])
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "link").symlink_to(tmp_path)
    with pytest.raises(NoFolder, match="start the workers with HOLDFAST_FILES="):
        folders.checked(str(outside / "link" / "x"))


def test_columns_of_too_many_values_are_named_in_place_of_a_folder_for_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_folder, "MOST_FILES", 2)
    site = Site(folder, "carrier")
    copy = site.copy()
    site.deliver(copy, 1)
    copy.look_again(copy.again_ms)
    said = f"{folder}: 3 values of carrier in one transaction make as many files, and 2 are the most"
    assert [str(one).partition(";")[0] for one in site.errors] == [said]
    assert isinstance(site.errors[0], Refused), "the next transaction has one batch, and may fit"


def test_a_full_disk_is_waited_for_and_ends_the_job_in_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(folder)
    copy = site.copy()
    with monkeypatch.context() as patched:

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(pl.DataFrame, "write_parquet", full)
        for _ in range(MOST_REFUSALS - 1):
            site.deliver(copy, 1)
            site.now_ms = copy.again_ms
            copy.look_again(site.now_ms)
            assert isinstance(site.errors.pop(), Refused)
            copy.close()
            site.beside.poll()
            copy = site.copy()
        assert "No space left on device" in site.refusals.waits(site.now_ms)
        site.deliver(copy, 1)
    (error,) = site.errors
    assert str(error).startswith(f"batch 1 cannot be delivered to out, {folder}: it was refused 20 times")
    assert isinstance(error, InvalidRecord)
