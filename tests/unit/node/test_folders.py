"""An error of a folder or file names the place, the cause, and the setting that names another place."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.services.cli import cluster
from holdfast.services.cli.commands import app
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.node.machine import artifacts
from holdfast.services.node.machine.cluster_files import ClusterFiles
from holdfast.services.node.machine.folders import CACHE_SETTING, DATA_SETTING, explained, using
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import StartFailed
from holdfast.services.node.supervisor import Supervisor


def failed(code: int, place: Path) -> OSError:
    return OSError(code, os.strerror(code), str(place))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not the cache."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EROFS, "the file system of {} can only be read"),
        (errno.EACCES, "may not use {}"),
        (errno.EPERM, "may not use {}"),
        (errno.ENOENT, "nothing can be made in {}"),
        (errno.EEXIST, "{} is a file, no folder"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_the_place_the_cause_and_the_setting_are_named(code: int, said: str, elsewhere: Path) -> None:
    for name, setting in [("data", DATA_SETTING), ("cache", CACHE_SETTING)]:
        message, hint = explained(failed(code, elsewhere / name / "logs" / "a.log"), elsewhere / "data")
        assert str(elsewhere / name) in message
        assert said.format(elsewhere) in message
        assert hint == setting


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_asks_for_room_or_another_folder(code: int, elsewhere: Path) -> None:
    assert (
        explained(failed(code, elsewhere / "data" / "x"), elsewhere / "data")[1] == f"free some room, or {DATA_SETTING}"
    )
    message, hint = explained(failed(code, elsewhere / "rows.ndjson"))
    assert message.endswith("its disk is full")
    assert hint == "free some room"


def test_files_of_users_get_no_advice_about_settings(elsewhere: Path) -> None:
    (elsewhere / "file").write_text("")
    assert explained(failed(errno.ENOENT, elsewhere / "a")) == (f"{elsewhere}/a: No such file or directory", "")
    assert explained(failed(errno.ENOENT, elsewhere / "b" / "a")) == (
        f"{elsewhere}/b/a: there is no folder {elsewhere}/b",
        "",
    )
    assert explained(failed(errno.ENOTDIR, elsewhere / "file" / "a")) == (
        f"{elsewhere}/file/a: {elsewhere}/file is a file, no folder",
        "",
    )
    assert explained(OSError(errno.EIO, "Input/output error")) == ("[Errno 5] Input/output error", "")


def test_a_data_folder_that_cannot_be_made_is_explained_by_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = CliRunner().invoke(app, ["up", "--detach", "--data-dir", str(tmp_path / "file" / "cluster")])
    said = " ".join(found.output.split())
    assert found.exit_code == 1
    assert f"{tmp_path}/file is a file, no folder ({DATA_SETTING})" in said
    found = CliRunner().invoke(app, ["up", "--detach", "--data-dir", "/proc/cluster"])
    assert f"/proc/cluster: nothing can be made in /proc ({DATA_SETTING})" in " ".join(found.output.split())


def test_up_asks_for_a_folder_before_it_fetches_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(cluster, "_fetch_kafka", lambda **_: pytest.fail("47 MB are fetched for nothing"))
    found = CliRunner().invoke(app, ["up", "--detach", "--data-dir", str(tmp_path / "file" / "cluster")])
    assert f"is a file, no folder ({DATA_SETTING})" in " ".join(found.output.split())


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["list"], "give the folder of your cluster: --data-dir, or HOLDFAST_HOME"), (["up"], DATA_SETTING)],
)
def test_the_folder_of_another_user_is_named_with_the_option_that_names_another(
    words: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise failed(errno.EACCES, tmp_path / "supervisor.lock")

    monkeypatch.setattr(ClusterFiles, "supervisor", refused)
    found = CliRunner().invoke(app, [*words, "--data-dir", str(tmp_path)])
    said = " ".join(found.output.split())
    assert f"error: {tmp_path}: the user" in said
    assert f"may not use {tmp_path} ({hint})" in said
    assert found.exit_code == 1


def test_a_cache_that_cannot_be_written_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CommandFailed, match=f"{tmp_path}/file is a file, no folder") as raised:
        artifacts.ensure("kafka")
    assert raised.value.hint == CACHE_SETTING


def test_an_error_without_a_place_is_one_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=f"{tmp_path}: its disk is full") as raised, using(tmp_path, "free it"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.hint == "free some room, or free it"


def test_a_cluster_does_not_start_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("supervisor", "machine.folders"):
        named = f"holdfast.services.node.{module}.shortage"
        monkeypatch.setattr(named, lambda directory: f"no room in {directory}: 7 bytes free")
    supervisor = Supervisor(Settings(home=tmp_path / "cluster"), workers=1)
    with pytest.raises(StartFailed, match=r"7 bytes free \(free some room, or give a folder"):
        supervisor.start()
    assert supervisor.files.supervisor() is None, "the folder is free again"
