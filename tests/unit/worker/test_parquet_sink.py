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

from holdfast.services.kernel.errors import Fenced, InvalidRecord, NoFolder, Refused
from holdfast.services.kernel.plans.layout import TaskLayout
from holdfast.services.log.memory import MemoryTransactor
from holdfast.services.worker.sinks import folders, parquet_folder
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka
from holdfast.services.worker.sinks.refusals import MOST_REFUSALS
from holdfast.services.worker.sinks.staged_files import StagedFiles
from tests.support.outside_site import BATCHES, EXPECTED, OutsideSite, Steps, killed_everywhere, layout


def sink(folder: Path, *by: str, fields: dict[str, str] | None = None) -> TaskLayout:
    return layout("q", {"parquet": {"path": str(folder), "partition_by": list(by)}}, fields)


class Site(OutsideSite):
    """A unit with a sink of files."""

    def __init__(self, folder: Path, *by: str) -> None:
        self.folder = folder
        super().__init__(sink(folder, *by))

    def outside(self) -> OutsideKafka:
        return OutsideKafka(StagedFiles(self.tasks[:1], "job.0-abcdef", pause=lambda _: None))

    def numbers(self) -> list[int]:
        return sorted(ds.dataset(self.folder, format="parquet", partitioning="hive").to_table()["n"].to_pylist())

    def left(self) -> list[str]:
        """The marker is left out."""
        return [one.name for one in (self.folder / parquet_folder.ASIDE).glob("*/*") if one.name != "published.json"]

    def patch(self, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
        calls = (os, "replace"), (shutil, "rmtree"), (pl.DataFrame, "write_parquet"), (MemoryTransactor, "commit")
        for owner, name in calls:
            monkeypatch.setattr(owner, name, steps.around(getattr(owner, name)))
        return lambda: None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folders.allow(str(tmp_path))
    return tmp_path / "made" / "delays"


@pytest.mark.slow
def test_every_batch_is_there_once_wherever_a_copy_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_everywhere(lambda number: Site(folder / str(number), "carrier"), monkeypatch)


@pytest.mark.parametrize(("target", "call"), [(MemoryTransactor, "commit"), (parquet_folder.ParquetFolder, "publish")])
def test_a_copy_that_was_thought_dead_adds_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target: type, call: str
) -> None:
    """It has staged, or committed, and continues once its successor has delivered more."""
    site = Site(folder)
    continues = site.frozen(target, call, monkeypatch)
    successor = site.copy()
    site.deliver(successor, *BATCHES[:2])
    with pytest.raises(Fenced) if call == "commit" else nullcontext():
        continues()
    site.deliver(successor, *BATCHES[2:])
    assert site.numbers() == EXPECTED
    site.deliver(site.copy(), *BATCHES)
    assert site.numbers() == EXPECTED


def test_a_copy_that_closes_moves_the_files_that_are_committed_and_no_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is cancelled has no copy that would open its outputs."""
    site = Site(folder)
    site.frozen(parquet_folder.ParquetFolder, "publish", monkeypatch)
    (folder / parquet_folder.ASIDE / "job.0-abcdef.sink-q-0" / "staged").mkdir()
    standby = site.copy(opened=False)
    standby.close()
    while site.beside.poll():
        pass
    assert site.numbers() == [10, 11, 12, 20, 21, 22]
    assert site.left() == ["staged"]


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
    (letter,) = site.letters()
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
