"""Jobs in Python: the models of the job file, read where a command takes a job file, and tried on frames."""

from __future__ import annotations

import inspect
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holdfast
from holdfast import Job, JobRejected, aggregate, count, filter, max, parts, query, renamed, sink, source, window
from holdfast.services.client.job_files import file_of, read_job
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.operators.python import restrict
from holdfast.services.planning.conversion import function_name
from holdfast.services.planning.drawing import svg
from holdfast.testing import JobRun

DAY = datetime(2026, 1, 1, tzinfo=UTC)
DELAYS = Job(
    name="delays",
    sources={
        "flights": source(
            topic="flights",
            fields={"carrier": "string", "delay": renamed("int?", "dep-delay"), "at": "timestamp"},
            event_time="at",
        )
    },
    operators={
        "late": filter(filter="delay > 15", input="flights"),
        "daily": aggregate(
            aggregate={"n": count(), "worst": max("delay")},
            key=["carrier"],
            input="late",
            window=window(size_s=86400),
        ),
    },
    queries={"delays": query(input="daily", sink=sink(topic="delays")), "late": query(input="late")},
)
MODULE = """
from holdfast import Job, query, source, window

given = {"given": source(topic="given", fields={"k": "string"})}
first = Job(name="first", sources=given, queries={"all": query(input="given")})
"""


def test_a_job_gives_the_rows_of_each_query_as_a_frame_of_its_types() -> None:
    rows = pl.DataFrame({"carrier": ["AA", "AA", "UA"], "delay": [16, 40, 15], "at": [DAY] * 3, "other": [1, 2, 3]})
    tried = DELAYS.try_({"flights": rows})
    assert tried["delays"].rows(named=True) == [
        {"carrier": "AA", "n": 2, "worst": 40, "window_start": DAY, "window_end": datetime(2026, 1, 2, tzinfo=UTC)}
    ]
    assert tried["late"].sort("delay").equals(rows.select("carrier", "delay", "at").head(2))
    assert (tried.dead_letters.height, tried.late) == (0, 0)


def test_records_may_be_mappings_or_bytes_and_bad_ones_are_dead_letters() -> None:
    good = {"carrier": "AA", "dep-delay": 20, "at": "2026-01-01T00:00:00Z"}
    tried = DELAYS.try_({"flights": [good, b"{", {**good, "dep-delay": "x"}]})
    assert tried["late"]["delay"].to_list() == [20]
    assert tried.dead_letters["offset"].to_list() == [1, 2]
    assert "dep-delay: expected int?, found" in tried.dead_letters["reason"][1]


@pytest.mark.parametrize("format", ["json", "arrow"])
def test_values_of_every_type_come_back_as_they_went_in(format: str, tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "at": [DAY, None],
            "price": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(10, 2)),
            "raw": [b"\x00\xff", None],
            "tags": [["a", None], None],
            "x": [1.5, None],
        }
    )
    fields = {"at": "timestamp?", "price": "decimal(10,2)?", "raw": "bytes?", "tags": "list<string?>?", "x": "float?"}
    job = Job.model_validate(
        {
            "name": "copied",
            "sources": {"given": {"topic": "given", "format": format, "fields": fields}},
            "queries": {"all": {"input": "given", "sink": {"topic": "all", "format": format}}},
        }
    )
    rows.write_parquet(tmp_path / "rows.parquet")
    assert job.try_({"given": rows})["all"].equals(rows)
    assert job.try_({"given": tmp_path / "rows.parquet"})["all"].equals(rows)


def test_inputs_that_do_not_fit_the_job_are_named() -> None:
    with pytest.raises(UnusableFile, match=r"no source 'flight'.*'flights'"):
        DELAYS.try_({"flight": []})
    with pytest.raises(UnusableFile, match="source 'flights' has no input"):
        DELAYS.try_({})
    with pytest.raises(UnusableFile, match="'flights' has no column carrier, delay"):
        DELAYS.try_({"flights": pl.DataFrame({"at": [DAY]})})


def test_a_part_is_refused_in_the_words_of_a_job_file() -> None:
    with pytest.raises(JobRejected, match=r"window\.slid_s: is not a setting \(did you mean 'slide_s'\?\)"):
        window(size_s=1, slid_s=1)  # type: ignore[call-arg]
    with pytest.raises(JobRejected, match=r"window\.slide_s: slide_s is larger than size_s"):
        window(size_s=1, slide_s=2)
    with pytest.raises(JobRejected) as rejected:
        Job(name="X", sources=DELAYS.sources, operators={"late": {"filtre": "a"}}, queries={})
    assert [one.path for one in rejected.value.problems] == ["name", "operators.late", "queries"]


def test_every_model_of_the_job_file_is_a_function_with_its_settings() -> None:
    for part in parts.models():
        if part.__name__ in ("JobSpec", "Renamed", "OperatorSpec", "Hosted"):
            continue
        made = getattr(holdfast, function_name(part))
        assert set(inspect.signature(made).parameters) == set(part.model_fields), part


def test_a_module_gives_the_job_that_is_named_or_its_only_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one_job.py", tmp_path / "two_jobs.py"
    one.write_text(MODULE)
    two.write_text(MODULE + 'second = Job(name="second", sources=given, queries={"all": query(input="given")})\n')
    assert read_job(one).raw == read_job(Path(f"{one}:first")).raw
    assert read_job(Path(f"{two}:second")).raw["name"] == "second"
    assert file_of(Path(f"{two}:second")) == two
    with pytest.raises(CommandFailed, match="has first, second"):
        read_job(two)
    with pytest.raises(CommandFailed, match="has no job 'fist'"):
        read_job(Path(f"{two}:fist"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("\nwindow(size_s=1,\n  slide_s=2)\n", r"bad\.py:2: window\.slide_s: slide_s is larger"),
        ("\n\nx = 1 / 0\n", r"bad\.py:3: ZeroDivisionError"),
        ("x = (\n", r"bad\.py:1: not Python"),
    ],
)
def test_a_mistake_in_a_module_is_named_with_its_line(lines: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("from holdfast import window" + lines if lines.startswith("\n") else lines)
    with pytest.raises(JobRejected, match=said):
        read_job(file)
    assert "bad" not in sys.modules


def test_a_picture_has_a_box_for_each_part_and_an_arrow_for_each_input() -> None:
    picture = DELAYS._repr_html_()
    assert picture == svg(DELAYS)
    assert picture.count("<rect") == 5
    assert picture.count(" Z") == 4
    assert all(text in picture for text in (">flights<", ">filter<", ">aggregate<", ">query to delays<"))


def test_an_import_loads_nothing_that_is_slow() -> None:
    probe = "import holdfast, sys; print(*sys.modules); holdfast.Job; print(*sys.modules)"
    first, then = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not {"pydantic", "polars", "yaml", "typing_extensions"} & set(first.split())
    assert not {"pandas", "pyspark", "confluent_kafka", "holdfast.services.cli"} & set(then.split())


def test_the_examples_of_the_page_run() -> None:
    page = (Path(__file__).parents[3] / "docs" / "jobs-in-python.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(blocks), "jobs-in-python.md", "exec"), names)
    names["test_delays_of_a_day_survive_a_kill"](JobRun)


def test_a_job_is_tried_with_its_code_though_another_run_of_this_process_has_allowed_only_its_own() -> None:
    job = Job(
        name="scores",
        sources={"flights": source(topic="flights", fields={"carrier": "string", "dep_delay": "int?"})},
        operators={
            "scored": holdfast.python(python="tests.support.scoring:Score", input="flights", params={"threshold": 15})
        },
        queries={"all": query(input="scored")},
    )
    restrict(["other"])
    assert job.try_({"flights": [{"carrier": "UA", "dep_delay": 20}]})["all"].rows() == [("UA", 1.0)]
