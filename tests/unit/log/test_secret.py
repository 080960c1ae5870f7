"""Where the cluster's secret comes from, and what is said of one that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.log.door import SecretDiffers, expect_secret
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Log
from holdfast.services.log.seal.seal import Keyring
from holdfast.services.log.seal.sealed import SealedLog
from holdfast.services.log.seal.secret import (
    SECRET,
    SECRET_FILE,
    SecretUnusable,
    is_said,
    keyring,
    readable_by_others,
    secret_file,
)

CUTS = Partition(ClusterTopics().job("flights", "7-abcdef").cuts, 0)
OLD, NEW = "an old secret of the cluster", "a new secret of the cluster"


def believes(keys: Keyring | None, writer: Keyring | None) -> bool:
    assert keys is not None
    place = keys.place(CUTS)
    headers = None if writer is None else [("hf", writer.place(CUTS).seal(None, None, b"cut"))]
    return place.fault(headers, None, b"cut") is None


def test_nothing_said_is_no_seal() -> None:
    assert keyring({}) is None
    assert not is_said({})
    assert keyring({SECRET: "off"}) is None
    assert is_said({SECRET: "off"})


def test_the_first_secret_seals_and_each_is_believed() -> None:
    both = keyring({SECRET: f"{NEW}, {OLD}"})
    assert believes(both, Keyring([NEW]))
    assert believes(both, Keyring([OLD]))
    assert not believes(both, None)
    assert believes(Keyring([NEW]), both)
    assert not believes(Keyring([OLD]), both)


def test_off_behind_a_secret_believes_what_has_no_seal() -> None:
    assert believes(keyring({SECRET: f"{NEW},off"}), None)
    assert not believes(keyring({SECRET: f"{NEW},off"}), Keyring([OLD]))


def test_a_file_holds_a_secret_a_line(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{NEW}\n{OLD}\n")
    file.chmod(0o600)
    found = keyring({SECRET_FILE: str(file)})
    assert believes(found, Keyring([OLD]))
    assert believes(Keyring([NEW]), found)
    assert not readable_by_others(secret_file({SECRET_FILE: str(file)}))
    file.chmod(0o640)
    assert readable_by_others(secret_file({SECRET_FILE: str(file)}))


def test_a_secret_that_cannot_be_used_is_refused_and_not_shown(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for environment, said in (
        ({SECRET: "hunter2"}, "7 characters"),
        ({SECRET: NEW, SECRET_FILE: "x"}, "both set"),
        ({SECRET_FILE: str(tmp_path / "none")}, "cannot be read"),
        ({SECRET_FILE: str(empty)}, "holds no secret"),
    ):
        with pytest.raises(SecretUnusable, match=said) as caught:
            keyring(environment)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "read",
    [
        lambda file: keyring({SECRET_FILE: str(file)}),
        lambda file: client_settings({"HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD_FILE": str(file)}),
    ],
    ids=["the cluster's", "Kafka's login"],
)
def test_a_secret_of_another_user_names_both_users_and_the_variable_of_compose(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.secret"
    file.write_text(NEW)

    def forbidden(self: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", forbidden)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    with pytest.raises(SecretUnusable) as caught:
        read(file)
    said = str(caught.value)
    assert f"user {os.getuid()} may read {file}, and this process runs as user 10001" in said
    assert "export HOLDFAST_UID=$(id -u)" in said
    assert "make one" not in said


# -- a process and its cluster ----------------------------------------------------------------------------------------

TOPICS = ClusterTopics()
EVENTS = Partition(TOPICS.events, 0)


def told_by(*writers: str | None) -> MemoryLog:
    """A log with an event by each of the writers."""
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec(TOPICS.events)])
    for secret in writers:
        door: Log = log if secret is None else SealedLog(log, TOPICS, Keyring([secret]))
        door.appender("test").append(EVENTS, b"event")
    return log


@pytest.mark.parametrize("writers", [(), (OLD,), (None, OLD), (NEW, None, OLD, NEW), (OLD, *[None] * 200)])
def test_a_process_whose_secret_somebody_shares_starts(writers: tuple[str | None, ...]) -> None:
    expect_secret(SealedLog(told_by(*writers), TOPICS, Keyring([OLD])), TOPICS)


def test_a_process_with_another_secret_does_not_wait_for_ever() -> None:
    with pytest.raises(SecretDiffers, match="this process has another one"):
        expect_secret(SealedLog(told_by(OLD, OLD, None), TOPICS, Keyring([NEW])), TOPICS)


def test_a_process_without_a_secret_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET, raising=False)
    monkeypatch.delenv(SECRET_FILE, raising=False)
    with pytest.raises(SecretDiffers, match=r"this process has none.*HOLDFAST_CLUSTER_SECRET=off"):
        expect_secret(told_by(OLD, None), TOPICS)
    expect_secret(told_by(None, None), TOPICS)
    monkeypatch.setenv(SECRET, "off")
    expect_secret(told_by(OLD, OLD), TOPICS)


def test_a_first_secret_for_a_cluster_that_ran_without_says_how() -> None:
    with pytest.raises(SecretDiffers, match=r"carry no seal.*,off"):
        expect_secret(SealedLog(told_by(None, None), TOPICS, Keyring([NEW])), TOPICS)
    expect_secret(SealedLog(told_by(None, None), TOPICS, Keyring([NEW], unsealed=True)), TOPICS)
