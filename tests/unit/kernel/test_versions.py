"""Decision 0077: what a unit's bytes depend on, and nothing else."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from holdfast.services.kernel import versions as pinned
from holdfast.services.kernel.versions import PRETENDED, changed, differences, text_of, versions


@pytest.fixture(autouse=True)
def _fresh() -> None:
    versions.cache_clear()


def test_kafka_clients_and_releases_do_not_count() -> None:
    assert set(versions()) == {"kernel", "machine", "msgspec", "numpy", "polars", "pyarrow", "python"}


def _module(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()
    versions.cache_clear()
    return versions((name,))[f"code {name}"]


def test_a_users_code_counts_with_the_libraries_that_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    plain = _module(tmp_path, "scoring_a", "import polars\n")
    assert plain == _module(tmp_path, "scoring_a", "import polars\n")
    assert plain != _module(tmp_path, "scoring_a", "import polars as pl\n")
    using = _module(tmp_path, "scoring_a", "import yaml\n")
    monkeypatch.setattr(pinned, "_version", lambda name: "9.9")
    assert using != _module(tmp_path, "scoring_a", "import yaml\n"), "another version of PyYAML"


def test_all_modules_of_a_package_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "scoring_p" / "deep").mkdir(parents=True)
    for part in (".", "deep"):
        (tmp_path / "scoring_p" / part / "__init__.py").write_text("")
    before = versions(("scoring_p",))["code scoring_p"]
    (tmp_path / "scoring_p" / "deep" / "model.py").write_text("x = 1\n")
    versions.cache_clear()
    assert versions(("scoring_p",))["code scoring_p"] != before


def test_code_that_is_not_there_and_code_that_is_no_python_are_versions_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert versions(("not_there_at_all",))["code not_there_at_all"] == "missing"
    assert versions(("not.there",))["code not.there"] == "missing"
    monkeypatch.syspath_prepend(tmp_path)
    assert _module(tmp_path, "scoring_bad", "def (") != "missing"


def test_a_unit_depends_on_the_code_of_its_own_operators() -> None:
    found = {"polars": "1", "code scoring": "aa", "code other": "bb"}
    assert text_of(found) == "polars 1"
    assert text_of(found, ["scoring.models"]) == "code scoring aa, polars 1"
    assert text_of(found, ["scoringly"]) == "polars 1"
    assert text_of({}) == ""


def test_differing_versions_are_said_by_name() -> None:
    assert differences("code scoring aa, polars 1", "machine arm, polars 2") == (
        "code scoring missing (not aa), machine arm (not there), polars 2 (not 1)"
    )


def test_tests_may_pretend_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRETENDED, "polars=9.9, numpy=1")
    assert (versions()["polars"], versions()["numpy"]) == ("9.9", "1")


def test_imports_are_found_wherever_they_stand() -> None:
    text = (
        b"import a, b.c as d\nfrom e.f import (\n    g,\n)\nif True:\n    import h\nfrom . import own\nx = 'import'\n"
    )
    assert set(pinned._imported(text)) == {"a", "b", "e", "h"}


def test_pretended_versions_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRETENDED, f"@{tmp_path / 'versions'}")
    true = versions()["polars"]
    (tmp_path / "versions").write_text("polars=9.9\n")
    versions.cache_clear()
    assert (true != "9.9", versions()["polars"]) == (True, "9.9")


def test_code_that_changes_after_a_process_has_said_its_version_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    _module(tmp_path, "scoring_x", "import polars\n")
    _module(tmp_path, "scoring_y", "import polars\n")
    used = ["scoring_x", "scoring_x.models", "elsewhere"]
    assert not changed(used)
    (tmp_path / "scoring_x.py").write_text("import polars as pl\n")
    assert changed(used) == ["scoring_x"]
    assert not changed(["scoring_y"])
    _module(tmp_path, "scoring_x", "import polars as pl\n")
    assert not changed(used), "it has started again"
