"""The form of CSV that a source declares is that of its records, of its files in a local run, and of `send`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from holdfast import Job, csv_options, query, sink, source
from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.cli.commands import app
from holdfast.services.client.feed import Feed
from holdfast.services.client.frames import file_records
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.csv_form import CsvForm
from holdfast.services.kernel.dataflow.source_records import SourceDecoder
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret, load
from tests.support.examples import examples

FIELDS = {"a": "string?", "b": "string?", "c": "string?"}
SIGNS = st.permutations([",", ";", "|", "\t", '"', "'", "^", "]", "-"]).map(lambda signs: (signs[0], signs[1]))
CELL = st.text(",;|\t\"'^]-xN \n", min_size=0, max_size=4)
TABLE = st.lists(st.lists(CELL, min_size=3, max_size=3).filter(lambda row: bool("".join(row).strip())), max_size=6)


def read(path: Path, source: Source, null: tuple[str, ...] = ()) -> list[list[str | None]]:
    """The rows that a source gets of a file."""
    records: list[bytes | None] = [one for block in file_records(path, source, null) for one in block]
    params = source.model_dump(mode="json")
    found = SourceDecoder(OperatorPlan("s", "source", 1, (), params, dict(source.types))).decode(
        records, [1] * len(records), {}
    )
    assert found.refused == []
    return [list(row) for row in found.rows.select(list(source.types)).iter_rows()]


@examples(each_run=60, with_long=300)
@given(TABLE, SIGNS, st.booleans(), st.booleans(), st.sampled_from([(), ("N",)]))
def test_text_that_is_written_with_the_options_reads_back(
    table: list[list[str]], signs: tuple[str, str], header: bool, reordered: bool, given_null: tuple[str, ...]
) -> None:
    delimiter, quote = signs
    order = [2, 0, 1] if reordered and header else [0, 1, 2]
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, quotechar=quote, lineterminator="\n")
    if header:
        writer.writerow([list(FIELDS)[at] for at in order])
    writer.writerows([row[at] for at in order] for row in table)
    options = {"delimiter": delimiter, "quote": quote, "header": header, "null_words": ["x", "NN"]}
    declared = Source.model_validate({"topic": "t", "format": "csv", "csv": options, "fields": FIELDS})
    words = {"", "x", "NN", *given_null}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_text(written.getvalue(), newline="")
        expected = [[None if cell in words else cell for cell in row] for row in table]
        assert read(path, declared, given_null) == expected
        feed = Feed(
            path,
            strings=True,
            form=CsvForm(delimiter, quote),
            header=header,
            columns=() if header else list(FIELDS),
            null=("x", "NN", *given_null),
        )
        sent = [json.loads(one) for block in feed.blocks() for one in block]
        assert [[one[name] for name in FIELDS] for one in sent] == expected


def test_a_job_in_python_reads_files_and_records_by_its_options(tmp_path: Path) -> None:
    job = Job(
        name="prices",
        sources={
            "s": source(
                topic="s",
                format="csv",
                csv=csv_options(delimiter=";", quote="'", header=False, null_words=["NA"]),
                fields={"id": "int", "what": "string?"},
            )
        },
        operators={},
        queries={"q": query(input="s", sink=sink(topic="q"))},
    )
    (tmp_path / "rows.csv").write_text("\ufeff1;'a;\"b'\n\n2;NA\n", encoding="utf-8")
    expected = [{"id": 1, "what": 'a;"b'}, {"id": 2, "what": None}]
    given: list[Any] = [tmp_path / "rows.csv", [b"1;'a;\"b'", b"2;NA"]]
    for one in given:
        assert job.try_({"s": one})["q"].select("id", "what").to_dicts() == expected


def job(csv: Any, format: str = "csv") -> dict[str, Any]:
    return {
        "name": "j",
        "sources": {"s": {"topic": "s", "format": format, "fields": {"a": "int"}, "csv": csv}},
        "queries": {"q": {"input": "s", "sink": {"topic": "q"}}},
    }


@pytest.mark.parametrize(
    ("csv", "format", "path", "message", "hint"),
    [
        ({"null_words": ["NA"]}, "json", "csv", "a source of format json has none", "leave it out, or set format: csv"),
        ({"delimiter": ";;"}, "csv", "csv.delimiter", "';;' is not a sign", "such as"),
        ({"delimiter": "x"}, "csv", "csv.delimiter", "'x' is not a sign", "such as"),
        ({"quote": "\u00ab"}, "csv", "csv.quote", "is not a sign", "such as"),
        ({"delimiter": '"'}, "csv", "csv.quote", "is the delimiter, too", ""),
        ({"header": "no"}, "csv", "csv.header", "expected", ""),
        ({"null_words": "NA"}, "csv", "csv.null_words", "expected a list", "write [NA]"),
        ({"quotes": "'"}, "csv", "csv.quotes", "is not a setting", "quote"),
    ],
)
def test_a_mistake_in_the_options_is_said_at_the_option(
    csv: Any, format: str, path: str, message: str, hint: str
) -> None:
    try:
        problems = list(check(interpret(job(csv, format)), []).problems)
    except JobRejected as rejected:
        problems = list(rejected.problems)
    (problem,) = problems
    assert problem.path == f"sources.s.{path}"
    assert message in problem.message
    assert hint in problem.hint


def test_the_plain_form_carries_the_options_and_without_them_is_as_it_was() -> None:
    spec = interpret(job({"delimiter": "\t", "null_words": ["NA"]}))
    assert JobSpec.model_validate(spec.as_plain()) == spec
    assert check(spec, []).params["s"]["csv"] == {"delimiter": "\t", "quote": '"', "header": True, "null_words": ["NA"]}
    assert "csv" not in interpret(job(None)).as_plain()["sources"]["s"]
    schema = json.dumps(JobSpec.model_json_schema())
    assert all(f'"{name}"' in schema for name in ("delimiter", "quote", "header"))


def test_a_job_file_says_the_options_without_quoting_a_key() -> None:
    text = """
      name: j
      sources:
        s: {topic: s, format: csv, csv: {delimiter: ";", header: false, null_words: [NA, "-"]}, fields: {a: int?}}
      queries: {q: {input: s, sink: {topic: q}}}
    """
    declared = load(text, "job.yaml").sources["s"].csv
    assert declared is not None
    assert (declared.delimiter, declared.header, declared.null_words) == (";", False, ["NA", "-"])


def test_rows_of_tabs_are_no_blank_lines_and_a_file_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1\t2\n\t\n \n3\t4\n")
    feed = Feed(path, form=CsvForm("\t"), header=False, columns=["a", "b"])
    found = [json.loads(one) for block in feed.blocks() for one in block]
    assert found == [{"a": 1, "b": 2}, {"a": None, "b": None}, {"a": 3, "b": 4}]
    assert feed.blank == 1
    for columns in (["a"], ["a", "b", "c"]):
        with pytest.raises(UnusableFile, match="as long as"):
            list(Feed(path, form=CsvForm("\t"), header=False, columns=columns).blocks())


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("a.csv", ["--delimiter", "ab"], "--delimiter: 'ab' is not a sign"),
        ("a.csv", ["--quote", ","], "--quote: is the delimiter, too"),
        ("a.csv", ["--no-header"], "--no-header goes with --column or --raw"),
        ("a.ndjson", ["--delimiter", ";"], "go with a csv file"),
    ],
)
def test_send_refuses_options_that_a_file_cannot_have(
    tmp_path: Path, file: str, options: list[str], message: str
) -> None:
    (tmp_path / file).write_text("1\n")
    done = CliRunner().invoke(app, ["send", "t", str(tmp_path / file), *options])
    assert done.exit_code != 0
    assert message in str(done.exception) + done.output
