"""Job files as editors write them: other line ends, a byte order mark, another encoding."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.services.client.job_files import read_job
from holdfast.services.kernel.errors import CommandFailed

JOB = """\
name: late  # verspätet
sources: {given: {topic: given, fields: {a: int}}}
queries: {q: {input: given, sink: {topic: out}}}
"""


@pytest.mark.parametrize("content", [JOB.replace("\n", "\r\n").encode(), JOB.encode("utf-8-sig")])
def test_windows_line_ends_and_a_byte_order_mark_are_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(content)
    assert read_job(tmp_path / "job.yaml").spec.name == "late"


@pytest.mark.parametrize(
    ("content", "why", "hint"),
    [
        (JOB.encode("utf-16"), "it is UTF-16, not UTF-8", "convert it: iconv -f UTF-16 -t UTF-8"),
        (("# here\n" + JOB).encode("latin-1"), "line 2 is not UTF-8", "save it as UTF-8"),
        (b"\x7fELF\xff\0", "it is no text", "give the path of a job file"),
    ],
)
def test_another_encoding_is_named(content: bytes, why: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(content)
    with pytest.raises(CommandFailed) as failed:
        read_job(tmp_path / "job.yaml")
    assert (failed.value.message, failed.value.hint) == (f"cannot read {tmp_path / 'job.yaml'}: {why}", hint)
