"""Users' modules are found in the folder where a command is given, if there are any."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.services.hosting.plugins import from_folder, modules_of


@pytest.mark.parametrize(("plugins", "found"), [("", False), ("mine, yours", True), (None, True)])
def test_the_folder_is_looked_in_only_where_users_have_modules(
    plugins: str | None, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", before := list(sys.path))
    modules = None if plugins is None else modules_of(plugins)
    from_folder(modules)
    from_folder(modules)
    assert sys.path == before
    assert sys.path.count(str(tmp_path)) == found
    assert (sys.path[0] == str(tmp_path)) == found
