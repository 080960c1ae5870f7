"""`holdfast try`: the whole job on files, for every format and every value."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
import typer

from holdfast.services.cli.trial import _files

pytestmark = pytest.mark.slow  # each starts the command
HOLDFAST = Path(sys.executable).parent / "holdfast"
JOB = """
name: copied
sources:
  given:
    topic: given
    format: FORMAT
    fields:
      id: int
      at: timestamp
      text: string?
      x: float?
      price: decimal(20,4)?
      day: date?
      raw: bytes?
      ok: bool?
      tags: list<string?>?
      place: "struct<a: int?, b: string?>?"
    event_time: at
queries:
  all: {input: given, sink: {topic: all, format: FORMAT}}
"""
OLD = datetime(1901, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
ROWS = pl.DataFrame(
    {
        "id": [0, -(2**63), 2**63 - 1, 2**53 + 1],
        "at": [OLD, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), OLD, OLD],
        "text": ['"\\ \n\r\t\x00\u2028', "\U0001f642 \u00e4\u00df \u0915", "", None],
        "x": [-0.0, 5e-324, 1.7976931348623157e308, None],
        "price": [Decimal("-1234567890123456.7891"), Decimal("0.0001"), Decimal(0), None],
        "day": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None],
        "raw": [b"\x00\xff", b"", b"a", None],
        "ok": [True, False, None, None],
        "tags": [["a", None, ""], [], ["\n"], None],
        "place": [{"a": 2**63 - 1, "b": "x"}, {"a": None, "b": None}, {"a": 0, "b": ""}, None],
    },
    schema_overrides={"price": pl.Decimal(20, 4)},
)


def attempt(folder: Path, format: str, file: str) -> list[dict[str, object]]:
    job = folder / "job.yaml"
    job.write_text(JOB.replace("FORMAT", format))
    done = subprocess.run(
        [HOLDFAST, "try", str(job), "--input", f"given={folder / file}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "dead letter" not in done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def assert_same(found: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
    """Also the sign of a zero, which == does not see."""
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.fixture(scope="module")
def as_json(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Every value through a JSON source and a JSON sink."""
    folder = tmp_path_factory.mktemp("json")
    ROWS.write_parquet(folder / "rows.parquet")
    return attempt(folder, "json", "rows.parquet")


def test_every_value_passes_a_json_source_and_sink_unchanged(as_json: list[dict[str, object]]) -> None:
    expected: list[dict[str, object]] = [
        {
            "id": 0, "at": "1901-02-03T04:05:06.000789Z", "text": '"\\ \n\r\t\x00\u2028', "x": -0.0,
            "price": "-1234567890123456.7891", "day": "0001-01-01", "raw": "AP8=", "ok": True,
            "tags": ["a", None, ""], "place": {"a": 2**63 - 1, "b": "x"},
        },
        {
            "id": -(2**63), "at": "1969-12-31T23:59:59.000000Z", "text": "\U0001f642 \u00e4\u00df \u0915", "x": 5e-324,
            "price": "0.0001", "day": "1969-12-31", "raw": "", "ok": False, "tags": [],
            "place": {"a": None, "b": None},
        },
        {
            "id": 2**63 - 1, "at": "1901-02-03T04:05:06.000789Z", "text": "", "x": 1.7976931348623157e308,
            "price": "0.0000", "day": "9999-12-31", "raw": "YQ==", "ok": None, "tags": ["\n"],
            "place": {"a": 0, "b": ""},
        },
        {
            "id": 2**53 + 1, "at": "1901-02-03T04:05:06.000789Z",
            **dict.fromkeys(["text", "x", "price", "day", "raw", "ok", "tags", "place"]),
        },
    ]  # fmt: skip
    assert_same(as_json, expected)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_arrow_carries_the_same_rows(tmp_path: Path, as_json: list[dict[str, object]], kind: str) -> None:
    ROWS.write_parquet(tmp_path / "rows.parquet")
    ROWS.write_ipc(tmp_path / "rows.arrow")
    assert_same(attempt(tmp_path, "arrow", f"rows.{kind}"), as_json)


REFUSING = """
name: refusing
sources: {given: {topic: given, fields: {s: string}}}
operators:
  matched: {filter: "REGEXP_LIKE('aa', s)", input: given, parallelism: 2}
  counted: {aggregate: {n: "count()"}, input: matched, emit: final}
queries: {all: {input: counted}}
"""


def test_a_row_that_a_filter_in_a_unit_of_its_own_refuses_is_a_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(REFUSING)
    (tmp_path / "given.ndjson").write_text("".join(f'{{"s": "{text}"}}\n' for text in ("a", "(", "a")))
    command = [str(HOLDFAST), "try", "job.yaml", "--input", "given=given.ndjson", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == '{"n":2}\n'
    assert json.loads(done.stderr)["dead_letters"] == 1


def test_a_file_with_its_columns_in_another_order_gives_the_same_rows(tmp_path: Path) -> None:
    job = JOB.split("      text:")[0] + "    event_time: at\n" + JOB[JOB.index("queries:") :]
    (tmp_path / "job.yaml").write_text(job.replace("FORMAT", "csv", 1).replace("FORMAT", "json"))
    for name, text in (("own", "id,at\n1,2013-01-01T00:00:00Z\n"), ("other", "at,n,id\n2013-01-01T00:00:00Z,x,1\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    done = [
        subprocess.run(
            [HOLDFAST, "try", str(tmp_path / "job.yaml"), "--input", f"given={tmp_path / name}.csv"],
            capture_output=True, text=True, check=False,
        )
        for name in ("own", "other")
    ]  # fmt: skip
    assert [one.returncode for one in done] == [0, 0], done
    assert done[0].stdout == done[1].stdout != ""


NA_JOB = """
name: job
sources:
  given: {topic: given, format: FORMAT, fields: {a: int, b: int?}}
OPERATORS
queries: {q: {input: LAST, sink: {topic: out}}}
"""
CODE = """
from holdfast import PythonOperator

class Typo(PythonOperator):
    output = {"a": "int"}

    def on_batch(self, batch, state, ctx):
        return self.helper(batch)

    def helper(self, batch):
        return batch.selekt("a")
"""


def tried(
    folder: Path, csv: str, *more: str, format: str = "json", operators: str = "", last: str = "given"
) -> subprocess.CompletedProcess[str]:
    job, file = folder / "job.yaml", folder / "given.csv"
    job.write_text(NA_JOB.replace("FORMAT", format).replace("OPERATORS", operators).replace("LAST", last))
    file.write_text(csv)
    (folder / "typo_code.py").write_text(CODE)
    (folder / "-").touch()  # a file of that name changes nothing: rows go to stdout
    return subprocess.run(
        [HOLDFAST, "try", "job.yaml", "--input", "given=given.csv", *more],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_word_for_null_is_named_as_send_names_it(tmp_path: Path, format: str) -> None:
    """With one NA every b of the file is a text, so that each record is a dead letter: status 1, and the reason."""
    file = "a,b\n1,2\n2,NA\n3,x\n"
    done = tried(tmp_path, file.replace("1,2", "1,y"), format=format)
    assert done.returncode == 0 if format == "csv" and done.stdout else done.returncode == 1
    assert "every record of given is a dead letter, 3 in all; most often: b: expected int" in done.stderr
    done = tried(tmp_path, "a,b\n1,2\n2,NA\n3,\n", "--null", "NA", format=format)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"a": 1, "b": 2}, {"a": 2, "b": None}, {"a": 3, "b": None}
    ]  # fmt: skip


def test_dead_letters_are_shown_up_to_the_number_asked_for(tmp_path: Path) -> None:
    file = "a,b\n1,1\n" + "".join(f"x{index},1\n" for index in range(9))
    assert tried(tmp_path, file, format="csv").stderr.count("\ndead letter: ") == 5
    done = tried(tmp_path, file, "--dead-letters", "8", format="csv")
    assert done.stderr.count("\ndead letter: ") == 8
    assert "... and 1 more dead letter: --dead-letters N" in done.stderr
    done = tried(tmp_path, file, "--dead-letters", "0", format="csv")
    assert done.stderr.count("\ndead letter: ") == 0
    assert "9 dead letters: --dead-letters N" in done.stderr
    assert done.returncode == 0, "a row came out"


def test_a_typo_in_an_operator_is_status_1_with_the_line_of_the_code(tmp_path: Path) -> None:
    operators = "operators: {typo: {python: 'typo_code:Typo', input: given}}"
    done = tried(tmp_path, "a,b\n1,2\n2,3\n", operators=operators, last="typo")
    assert done.returncode == 1
    assert "no row came out: 2 dead letters of typo" in done.stderr
    assert "AttributeError" in done.stderr
    assert "typo_code.py, line 11, in helper" in done.stderr


LATE = """
name: job
sources:
  given: {topic: given, fields: {at: timestamp}, event_time: at, unit: s, max_ahead_s: null, late: topic}
operators: {minutes: {aggregate: {n: "count()"}, window: {size_s: 60}, input: given}}
queries: {q: {input: minutes, sink: {topic: out}}}
max_batch_records: 10
"""


def test_the_record_that_made_others_late_is_named(tmp_path: Path) -> None:
    times = [*range(1_700_000_000, 1_700_000_050), 1_900_000_000, *range(1_700_000_050, 1_700_001_000)]
    (tmp_path / "job.yaml").write_text(LATE)
    (tmp_path / "given.ndjson").write_text("".join(f'{{"at": {time}}}\n' for time in times))
    done = subprocess.run(
        [HOLDFAST, "try", "job.yaml", "--input", "given=given.ndjson"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert "given[0] offset 50, whose event time 2030-03-17T17:46:40Z is 199,999,951 s ahead" in done.stderr
    assert "dead letter: minutes offset 60 of given[0]: late" in done.stderr


def test_a_source_has_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        _files(["a=1.csv", "a=2.csv"], {"a": None}, Path())
    expected = "error: --input a=2.csv: the source 'a' has a file already (put the records into one file)\n"
    assert capsys.readouterr().err == expected
