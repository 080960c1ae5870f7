"""Every kind of file gives the same records, in blocks, and a file that cannot be used says why."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.client import feed as feeding
from holdfast.services.client.csv_text import CsvText
from holdfast.services.client.feed import Feed
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.csv_form import PLAIN

CSV = CsvText(PLAIN)
ROWS: list[dict[str, Any]] = [
    {"carrier": "UA", "delay": 4, "miles": 1.5, "late": True},
    {"carrier": "B6", "delay": None, "miles": 2.0, "late": False},
    {"carrier": 'a "b", c', "delay": -7, "miles": None, "late": None},
]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def parquet(frame: pl.DataFrame, path: Path) -> bytes:
    frame.write_parquet(path)
    return path.read_bytes()


def rows(path: Path, **options: Any) -> list[Any]:
    return [json.loads(value) for block in Feed(path, **options).blocks() for value in block]


def lines(path: Path, **options: Any) -> list[bytes]:
    return [value for block in Feed(path, **options).blocks() for value in block]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", ["ndjson", "jsonl", "csv", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, kind: str, suffix: str) -> None:
    frame = pl.DataFrame(ROWS)
    content = {
        "ndjson": b"".join(json.dumps(row).encode() + b"\n" for row in ROWS),
        "jsonl": b"\r\n\r\n".join(json.dumps(row).encode() for row in ROWS),
        "csv": frame.write_csv().encode(),
        "parquet": parquet(frame, tmp_path / "plain"),
    }[kind]
    assert rows(write(tmp_path / f"rows.{kind}{suffix}", content)) == ROWS


def test_parquet_and_arrow_become_records_of_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "ROWS", 40)
    frame = pl.DataFrame({"n": range(100)})
    frame.write_parquet(tmp_path / "rows.parquet")
    frame.write_ipc(tmp_path / "rows.arrow", compression="lz4")
    frame.write_ipc_stream(tmp_path / "rows.feather")
    for name in ("rows.parquet", "rows.arrow", "rows.feather"):
        tables = [pl.read_ipc_stream(value) for value in lines(tmp_path / name, arrow=True)]
        assert [table.height for table in tables] == [40, 40, 20]
        assert pl.concat(tables).equals(frame)
        assert rows(tmp_path / name) == frame.to_dicts()
    with pytest.raises(UnusableFile, match="has no Arrow records"):
        lines(write(tmp_path / "rows.ndjson", b"{}"), arrow=True)
    with pytest.raises(UnusableFile, match="is not an arrow file"):
        lines(write(tmp_path / "bad.arrow", b"ARROW1 not"), arrow=True)


def test_wide_rows_are_halved_until_a_topic_takes_them(tmp_path: Path) -> None:
    frame = pl.DataFrame({"text": ["x" * 1000] * 2000})
    frame.write_parquet(tmp_path / "rows.parquet")
    found = lines(tmp_path / "rows.parquet", arrow=True)
    assert max(map(len, found)) <= 512 * 1024
    assert sum(pl.read_ipc_stream(value).height for value in found) == 2000


def test_bad_lines_of_ndjson_pass_unchanged_to_become_dead_letters(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.ndjson", b'{"a": 1}\nnot json\n\n\xff\n{"a":')
    assert lines(path) == [b'{"a": 1}', b"not json", b"\xff", b'{"a":']


def test_a_csv_column_is_what_all_of_its_values_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "BLOCK_BYTES", 1 << 16)
    many = b"".join(b"%d,%d,%d\n" % (i, i, i) for i in range(20_000))
    path = write(tmp_path / "rows.csv", b"int,float,text\n" + many + b"1,0.5,x\n")
    assert len(list(Feed(path).blocks())) > 1
    found = rows(path)
    assert found[0] == {"int": 0, "float": 0.0, "text": "0"}
    assert found[-1] == {"int": 1, "float": 0.5, "text": "x"}


def test_csv_words_for_null_and_numbers_that_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", b"zip,n,empty,none\n01234,NA,,NA\n99999,5,,\n")
    assert rows(path, null=["NA"]) == [
        {"zip": "01234", "n": None, "empty": None, "none": None},
        {"zip": "99999", "n": 5, "empty": None, "none": None},
    ]
    assert rows(path)[0]["n"] == "NA"
    assert rows(path, strings=True, null=["NA"])[1] == {"zip": "99999", "n": "5", "empty": None, "none": None}


def test_csv_quotes_hold_commas_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", '\ufeffa,"b\nc"\r\n1,"x, ""y""\nz"\r\n2,"1234"'.encode())
    assert rows(path) == [{"a": 1, "b\nc": 'x, "y"\nz'}, {"a": 2, "b\nc": "1234"}]


@pytest.mark.parametrize(
    ("name", "content", "found", "blank"),
    [
        ("a.ndjson", b'\n{"n":1}\n\n  \n{"n":2}\r\n\r\n', [{"n": 1}, {"n": 2}], 4),
        ("a.csv", b"\nn,m\n1,a\n\n \t\n2,b\n\n", [{"n": 1, "m": "a"}, {"n": 2, "m": "b"}], 4),
        ("a.csv", b'n,m\n1,"a\n\nb"\n\n2,"c"\n ', [{"n": 1, "m": "a\n\nb"}, {"n": 2, "m": "c"}], 2),
        ("a.csv", b"n\n1\n\n2\n", [{"n": 1}, {"n": 2}], 1),
        ("a.csv", b"n,m\n1,a\n2,b", [{"n": 1, "m": "a"}, {"n": 2, "m": "b"}], 0),
        ("a.ndjson", b"\n\n", [], 2),
    ],
)
def test_blank_lines_are_no_rows_and_are_counted(
    tmp_path: Path, name: str, content: bytes, found: list[Any], blank: int
) -> None:
    feed = Feed(write(tmp_path / name, content))
    assert [json.loads(value) for block in feed.blocks() for value in block] == found
    assert feed.blank == blank


def test_raw_csv_has_no_blank_lines_either(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"a,b\n\n1,2\n\n3,4\n")
    assert lines(path, raw=True) == lines(path, raw=True, columns=["a", "b"]) == [b"1,2", b"3,4"]


def test_raw_csv_is_its_lines_without_the_header(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv.gz", b'a,"b\nc"\r\n1,"x\ny"\r\n\r\n2,NA\r\n')
    assert lines(path, raw=True) == [b'1,"x\ny"', b"2,NA"]
    with pytest.raises(UnusableFile, match="no lines"):
        Feed(tmp_path / "rows.parquet", raw=True).blocks()


def test_raw_csv_is_brought_into_the_order_of_the_columns_by_its_header(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", b'a,"b\nc",d\r\n1,"x\ny",NA\r\n,"2,3",\r\n')
    assert lines(path, raw=True, columns=["b\nc", "a"]) == [b'"x\ny",1', b'"2,3",']
    assert lines(path, raw=True, columns=["a", "b\nc", "d"]) == [b'1,"x\ny",NA', b',"2,3",'], "as it stands"
    with pytest.raises(UnusableFile, match="no column e, f"):
        lines(path, raw=True, columns=["a", "e", "f"])
    with pytest.raises(UnusableFile, match="no column id"):
        lines(write(tmp_path / "headless.csv", b"1,2\n3,4\n"), raw=True, columns=["id"])


def test_records_of_an_arrow_file_of_views_carry_their_own_texts_only(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "text": [f"{row:0100}" for row in range(30_000)],
            "deep": [[{"text": f"{row:0100}", "raw": b"x" * 50}] for row in range(30_000)],
        }
    )
    frame.write_ipc(tmp_path / "rows.arrow", compat_level=pl.CompatLevel.newest())
    found = lines(tmp_path / "rows.arrow", arrow=True)
    assert pl.concat(pl.read_ipc_stream(value) for value in found).equals(frame)
    assert sum(map(len, found)) < 2 * frame.estimated_size()


def test_parquet_times_are_utc_and_bytes_base64(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"at": [datetime(2013, 1, 1, 5, 0, 0, 500)], "raw": [b"\xff\x00"], "deep": [[{"raw": b"\xff"}]], "nan": ["nan"]}
    ).with_columns(pl.col("nan").cast(pl.Float64))
    (whole,) = rows(write(tmp_path / "deep.parquet", parquet(frame, tmp_path / "plain")))
    (flat,) = rows(write(tmp_path / "flat.parquet", parquet(frame.drop("deep"), tmp_path / "plain")))
    assert flat["raw"] == whole["raw"] == base64.b64encode(b"\xff\x00").decode()
    assert whole["deep"] == [{"raw": base64.b64encode(b"\xff").decode()}]
    for row in (flat, whole):
        assert datetime.fromisoformat(row["at"]) == datetime.fromisoformat("2013-01-01T05:00:00.0005+00:00")
        assert row["nan"] is None


def test_a_file_is_read_in_blocks_and_says_how_far_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.ndjson", b'{"a": "%s"}\n' % (b"x" * 1000) * 5000)
    feed = Feed(path)
    shares = [feed.share for _ in feed.blocks()]
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert feed.share == 1.0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.xml", b"", "does not say what the file holds .known: .ndjson"),
        ("rows.gz", b"", "does not say what the file holds"),
        ("rows.json", b'[{"a": 1}]', "is a JSON list .one object a line: jq"),
        ("rows.csv", b"a,a\n1,2\n", "does not name every column once"),
        ("rows.csv", b"a,b\n1,2,3\n", "row 1 behind the header is no row of 2 columns: '1,2,3'"),
        ("rows.csv", b"a,\xff\n1,2\n", "is not UTF-8"),
        ("rows.csv", b"a,b\n1,\xff\n", "row 1 behind the header is not UTF-8"),
        ("rows.csv", b"a,b\r1,2\r", "ends its lines by a carriage return alone"),
        ("rows.csv", b"a;b\n1;2\n", "the only column is named 'a;b' .if ';' is the delimiter, name it"),
        ("rows.parquet", b"PAR1 not", "is not a parquet file"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UnusableFile, match=message):
        lines(path)


def test_a_row_of_csv_that_does_not_fit_goes_as_it_stands_and_costs_no_other(tmp_path: Path) -> None:
    long, open_quote = b"x,7,8", b'"open,9'
    path = write(
        tmp_path / "rows.csv", b"a,b\nz,1\n" + b"\n".join([long, b"y,2", b'"shut" 6",6', b"short", open_quote])
    )
    assert lines(path) == [
        b'{"a":"z","b":1}', long, b'{"a":"y","b":2}', b'{"a":"shut 6\\"","b":6}', b'{"a":"short","b":null}', open_quote
    ]  # fmt: skip


def test_a_row_that_does_not_fit_has_no_columns_to_choose_from(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n")
    with pytest.raises(UnusableFile, match="row 3 behind the header is no row of 3 columns: '6,7,8,9'"):
        lines(path, raw=True, columns=["c", "a"])


def test_files_that_are_not_there_or_cut_short(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="there is no file"):
        lines(tmp_path / "rows.csv")
    path = tmp_path / "rows.ndjson.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-20])
    with pytest.raises(UnusableFile, match="not a whole gzip file"):
        lines(path)


@pytest.mark.slow
def test_an_open_quote_is_told_and_does_not_take_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "MAX_RECORD_BYTES", 2 * feeding.BLOCK_BYTES)
    path = write(tmp_path / "rows.csv", b'a\n"' + b"1\n" * 4_000_000)
    with pytest.raises(UnusableFile, match="is a quote left open"):
        lines(path)


@given(st.lists(st.lists(st.text('a,"\n', max_size=5), min_size=2, max_size=2), max_size=20), st.integers(1, 30))
def test_cutting_never_parts_a_quoted_record(table: list[list[str]], size: int) -> None:
    quoted = ['"{}","{}"'.format(*(value.replace('"', '""') for value in row)).encode() for row in table]
    text = b"\n".join(quoted)
    found, rest = [], b""
    for start in range(0, len(text), size):
        whole, rest = CSV.cut(rest + text[start : start + size])
        found += [line for line in CSV.lines(whole) if line]
    assert found + [line for line in CSV.lines(rest) if line] == quoted


STRAY = b"""id,what,n
1,5" pipe,2
2,a "quoted" word,3
3,"x, ""y""
z",4
4,12",5
"""


@pytest.mark.parametrize("name", ["stray.csv", "stray.csv.gz"])
def test_a_quote_inside_a_field_is_a_character_as_it_is_to_python_and_duckdb(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, STRAY)
    expected = [list(one) for one in csv.reader(io.StringIO(STRAY.decode(), newline=""))][1:]
    assert len(expected) == 4
    assert [[str(value) for value in one.values()] for one in rows(path)] == expected
    for columns in ((), ("id", "what", "n")):
        lines = [line.decode() for block in Feed(path, raw=True, columns=columns).blocks() for line in block]
        assert [next(csv.reader(io.StringIO(line, newline=""))) for line in lines] == expected
    reordered = [line for block in Feed(path, raw=True, columns=("n", "what")).blocks() for line in block]
    assert len(reordered) == 4


@given(st.lists(st.lists(st.text('a",\n ', max_size=4), min_size=2, max_size=3), min_size=1, max_size=6))
def test_lines_of_csv_end_where_they_end_to_python(table: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(table)
    text = written.getvalue().encode().removesuffix(b"\n")
    assert len(CSV.lines(text)) == len(table)


def test_a_byte_order_mark_before_ndjson_is_no_content(tmp_path: Path) -> None:
    path = write(tmp_path / "marked.ndjson", b'\xef\xbb\xbf{"a":1}\n{"a":2}\n')
    assert rows(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", ["a.ndjson", "a.csv"])
def test_a_file_of_utf_16_is_named_as_such(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, '{"a":1}\n{"a":2}\n'.encode("utf-16"))
    with pytest.raises(UnusableFile, match="is UTF-16, not UTF-8"):
        list(Feed(path).blocks())
