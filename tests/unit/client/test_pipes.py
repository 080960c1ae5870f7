"""A pipe in place of a file gives the same records; a command that needs the file again refuses the pipe plainly."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from holdfast.services.cli.commands import app
from holdfast.services.client.feed import Feed
from holdfast.services.client.pipes import is_pipe
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.csv_form import CsvForm
from tests.support.deadlines import HANG_S

ROWS: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
NDJSON = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
CSV = b"a,b\n1,x\n2,y\n"


def pipe(path: Path, content: bytes) -> Path:
    """A pipe with this content, up to its end."""
    os.mkfifo(path)
    threading.Thread(target=lambda: path.write_bytes(content), daemon=True).start()
    return path


def parquet() -> bytes:
    written = io.BytesIO()
    pl.DataFrame(ROWS).write_parquet(written)
    return written.getvalue()


def records(feed: Feed) -> list[bytes]:
    return [record for block in feed.blocks() for record in block]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.ndjson", NDJSON),
        ("rows.ndjson.gz", gzip.compress(NDJSON)),
        ("rows.csv", CSV),
        ("rows.csv.gz", gzip.compress(CSV)),
        ("rows.parquet", parquet()),
        ("rows.parquet.gz", gzip.compress(parquet())),
        ("63", NDJSON),
    ],
)
def test_a_pipe_gives_the_records_of_a_file(tmp_path: Path, name: str, content: bytes) -> None:
    feed = Feed(pipe(tmp_path / name, content))
    assert [json.loads(record) for record in records(feed)] == ROWS
    assert feed.share == 1.0


def test_a_pipe_without_a_name_has_the_format_of_its_source(tmp_path: Path) -> None:
    assert records(Feed(pipe(tmp_path / "1", CSV), raw=True, columns=["b", "a"])) == [b"x,1", b"y,2"]
    assert records(Feed(pipe(tmp_path / "2", CSV), raw=True)) == [b"1,x", b"2,y"]
    tabs = Feed(pipe(tmp_path / "3", CSV.replace(b",", b"\t")), form=CsvForm("\t"))
    assert [json.loads(record) for record in records(tabs)] == ROWS
    stream = io.BytesIO()
    pl.DataFrame(ROWS).write_ipc_stream(stream)
    (rows,) = records(Feed(pipe(tmp_path / "4", stream.getvalue()), arrow=True))
    assert pl.read_ipc_stream(rows).to_dicts() == ROWS
    (tmp_path / "63").write_bytes(NDJSON)
    with pytest.raises(UnusableFile, match="the name 63 does not say what the file holds"):
        Feed(tmp_path / "63")
    with pytest.raises(UnusableFile, match="the standard input is /dev/stdin"):
        Feed(Path("-"))


def test_records_of_a_pipe_are_there_before_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.ndjson")
    first_is_read = threading.Event()

    def write() -> None:
        with (tmp_path / "rows.ndjson").open("wb", buffering=0) as end:
            end.write(b'{"a": 1}\n')
            assert first_is_read.wait(HANG_S)
            end.write(b'{"a": 2}\n')

    threading.Thread(target=write, daemon=True).start()
    blocks = Feed(tmp_path / "rows.ndjson").blocks()
    assert next(blocks) == [b'{"a": 1}']
    first_is_read.set()
    assert list(blocks) == [[b'{"a": 2}']]


def test_a_file_a_folder_and_nothing_are_no_pipes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert [is_pipe(tmp_path / name) for name in ("file", "", "absent")] == [False] * 3
    assert is_pipe(Path("/dev/null"))
    assert is_pipe(Path("/dev/stdin"))


JOB = """
name: copied
sources: {given: {topic: given, fields: {a: int, b: string}}}
queries: {all: {input: given, sink: {topic: all}}}
"""


def test_try_reads_a_pipe_of_a_shell(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    reading, writing = os.pipe()
    os.write(writing, NDJSON)
    os.close(writing)
    try:
        done = CliRunner().invoke(app, ["try", str(tmp_path / "job.yaml"), "--input", f"given=/dev/fd/{reading}"])
    finally:
        os.close(reading)
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in done.stdout.splitlines()] == ROWS


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["init", "{0}/new.yaml", "--from", "{0}/rows.ndjson"], "the job file is to name it"),
        (["try", "{0}/job.yaml", "--watch", "--input", "given={0}/rows.ndjson"], "--watch reads it again"),
    ],
)
def test_a_command_that_needs_the_file_again_refuses_a_pipe(tmp_path: Path, words: list[str], why: str) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    os.mkfifo(tmp_path / "rows.ndjson")
    done = CliRunner().invoke(app, [word.format(tmp_path) for word in words])
    said = " ".join(done.output.split())
    assert done.exit_code == 2
    assert f"rows.ndjson is a pipe, which is gone once it is read, and {why} (write it to a file before)" in said
    assert not (tmp_path / "new.yaml").exists()
