"""Records of format text: each is the value of one column, or is refused with the reason, alone as among others."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Job, query, source
from holdfast.services.client.feed import Feed
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.support.examples import examples

some = st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=6).map(str.encode), st.just(b"\xef\xbb\xbfa"))


def test_a_record_is_a_text_or_says_why_it_is_none() -> None:
    values = [b"a \xc3\xa4", b"", b"\xef\xbb\xbfmarked", "utf".encode("utf-16"), b"\xff", None, b"last"]
    found = Decoder({"line": "string"}, "text").decode(values, [1] * len(values))
    assert found.rows["line"].to_list() == ["a ä", "", "marked", "last"]
    assert found.kept.tolist() == [0, 1, 2, 6]
    assert found.refused == [
        (3, "the record is UTF-16, and is to be UTF-8"),
        (4, "not UTF-8 at byte 0"),
        (5, "the record has no value"),
    ]


@examples(each_run=15, with_long=75)
@given(st.lists(some, max_size=5))
def test_a_record_fares_alone_as_among_others(values: list[bytes | None]) -> None:
    decoder = Decoder({"line": "string"}, "text")
    whole = decoder.decode(values, [1] * len(values))
    alone = [decoder.decode([value], [1]) for value in values]
    assert whole.rows["line"].to_list() == [row for one in alone for row in one.rows["line"].to_list()]
    assert [reason for _, reason in whole.refused] == [reason for one in alone for _, reason in one.refused]


def test_a_job_reads_the_lines_of_any_file_and_takes_times_out_of_them(tmp_path: Path) -> None:
    file = tmp_path / "access.log.1.gz"
    file.write_bytes(gzip.compress(b"[1600000000 a\n\n1600000001 b\n"))
    lines = source(topic="t", format="text", fields={"line": "string"})
    job = Job(name="j", sources={"t": lines}, queries={"all": query(input="t")})
    assert job.try_({"t": file})["all"].rows() == [("[1600000000 a",), ("1600000001 b",)]
    assert job.try_({"t": job.try_({"t": file})["all"]})["all"].height == 2
    plain = tmp_path / "access.log"
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    assert list(Feed(plain).blocks()) == [[b"[1600000000 a", b"1600000001 b"]]
    with pytest.raises(UnusableFile, match="there is no file"):
        Feed(tmp_path / "none.log")


@pytest.mark.parametrize("fields", [{"a": "string", "b": "string"}, {"a": "int"}])
def test_a_text_has_one_field_which_is_a_string(fields: dict[str, str]) -> None:
    given = {"topic": "t", "format": "text", "fields": fields}
    queries = {"all": {"input": "s", "sink": {"topic": "out"}}}
    found = check(interpret({"name": "j", "sources": {"s": given}, "queries": queries}), []).problems
    assert [(one.path, one.message) for one in found] == [
        ("sources.s.fields", "a source of format text has one field of type string")
    ]
