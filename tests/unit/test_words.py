"""The glossary's banned words are those that `scripts/words` looks for, and a find names file, line and advice."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def words() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "words"))


def test_every_word_that_the_glossary_bans_is_looked_for(words: dict[str, Any]) -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    banned = re.findall(r"\*\*(.+?)\*\*", text)
    assert len(banned) > 8
    missing = [one for one in banned if not any(re.search(pattern, one, re.IGNORECASE) for pattern in words["BANNED"])]
    assert missing == []


def test_a_find_names_file_line_word_and_advice(
    words: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    text = "Plain.\nIt is In Charge.\nIt looks on. <!-- words: keep -->\n"
    page.write_text(text, encoding="utf-8")
    words["main"].__globals__.update(ROOT=tmp_path, tracked=lambda: [page])
    assert words["main"]() == 1
    assert capsys.readouterr().out == "page.md:2: 'In Charge': write the leader, leads\n"  # words: keep


def test_a_docstring_begins_with_its_subject(
    words: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "services" / "some.py"
    file.parent.mkdir()
    text = '"""Of units."""\n\nN = 1\n"""Whether it runs."""\n\n\ndef f() -> None:\n    """What one does."""\n'
    file.write_text(text, encoding="utf-8")
    words["main"].__globals__.update(ROOT=tmp_path, tracked=lambda: [file])
    assert words["main"]() == 1
    assert [line.split(": ")[0:2] for line in capsys.readouterr().out.splitlines()] == [
        ["services/some.py:1", "'Of'"],
        ["services/some.py:4", "'Whether'"],
        ["services/some.py:8", "'What'"],
    ]
    file.write_text('"""Units that run."""\n', encoding="utf-8")
    assert words["main"]() == 0


def test_the_name_of_a_test_names_a_thing(
    words: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test_some.py"
    file.write_text("def test_what_runs() -> None: ...\n\n\nasync def test_one() -> None: ...\n", encoding="utf-8")
    words["main"].__globals__.update(ROOT=tmp_path, tracked=lambda: [file])
    assert words["main"]() == 1
    assert [line.split(": ")[0:2] for line in capsys.readouterr().out.splitlines()] == [
        ["test_some.py:1", "'test_what'"],
        ["test_some.py:4", "'test_one'"],
    ]
    file.write_text("def test_whatsoever_and_once_are_words() -> None: ...\n", encoding="utf-8")
    assert words["main"]() == 0


def test_words_of_identifiers_are_looked_at(
    words: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "some.py"
    file.write_text("def look():\n    is_in_charge = 1\n", encoding="utf-8")  # words: keep
    words["main"].__globals__.update(ROOT=tmp_path, tracked=lambda: [file])
    assert words["main"]() == 1
    assert capsys.readouterr().out == "some.py:2: 'in charge': write the leader, leads\n"  # words: keep
