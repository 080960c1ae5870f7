"""Decision 0077: changed code is another version of the kernel, changed words are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.services.kernel import code_digest as module
from holdfast.services.kernel.code_digest import code_digest

CODE = (
    '"""Words."""\n\nLIMIT = 1\n"""Words of a name."""\n\n\ndef f(x):\n    """Words."""\n    return x + 1  # a reason\n'
)


def _of(root: Path, text: str, name: str = "state/a.py") -> str:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)
    return code_digest(root, ["codecs", "state"])


@pytest.mark.parametrize(
    ("before", "after"), [("Words", "Other"), ("# a reason", "# why"), ("\n\n\ndef", "\n\ndef"), ('"""Words."""\n', "")]
)
def test_other_words_keep_the_digest(tmp_path: Path, before: str, after: str) -> None:
    assert CODE.replace(before, after) != CODE
    assert _of(tmp_path, CODE) == _of(tmp_path, CODE.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"), [("x + 1", "x + 2"), ("LIMIT = 1", "LIMIT = '1'"), ("def f(x)", "def f(y)")]
)
def test_other_code_changes_the_digest(tmp_path: Path, before: str, after: str) -> None:
    assert _of(tmp_path, CODE) != _of(tmp_path, CODE.replace(before, after))


def test_the_names_of_modules_count_and_other_packages_do_not(tmp_path: Path) -> None:
    before = _of(tmp_path, CODE)
    assert _of(tmp_path, CODE, "liveness/a.py") == before
    (tmp_path / "state" / "a.py").rename(tmp_path / "state" / "b.py")
    assert code_digest(tmp_path, ["codecs", "state"]) != before


def test_unchanged_texts_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    first = _of(tmp_path, CODE)
    monkeypatch.setattr(module, "_tree", lambda text: b"parsed")
    assert code_digest(tmp_path, ["codecs", "state"]) == first
    assert _of(tmp_path, CODE + "LAST = 1\n") != first


def test_a_folder_that_cannot_be_written_gives_the_same_digest(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "__pycache__").write_text("no folder")
    assert _of(tmp_path / "elsewhere", CODE) == _of(tmp_path, CODE)


def test_an_installation_without_sources_has_the_digest_of_nothing(tmp_path: Path) -> None:
    assert code_digest(tmp_path, ["codecs"]) == module.digest(())
