"""The files of a query's checkpoint: those of a micro-batch, and those that are missing."""

from __future__ import annotations

import pytest

from holdfast.services.spark.core.checkpoint_files import hidden, kept, lacking


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata", False),
        ("offsets/3", False),
        ("offsets/.3.crc", True),
        ("offsets/.3.0a1b.tmp", True),
        ("state/0/1/.tmp/3.changelog", True),
    ],
)
def test_files_being_written_and_checksums_are_hidden(path: str, expected: bool) -> None:
    assert hidden(path) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata", True),
        ("sources/0/0", True),
        ("offsets/4", True),
        ("offsets/5", False),
        ("commits/3", True),
        ("commits/4", False),
        ("state/0/1/5.changelog", True),
        ("state/0/1/6.changelog", False),
        ("state/0/1/left/6.zip", False),
        ("state/0/1/6_ab-c.changelog", False),
        ("state/0/1/5.delta", True),
        ("state/0/1/6.snapshot", False),
        ("state/0/1/SSTs/000099-ab.sst", True),
        ("state/0/_metadata/v2/9", True),
    ],
)
def test_a_checkpoint_ends_with_the_state_of_its_micro_batch(path: str, expected: bool) -> None:
    assert kept(path, planned=4, done=3) is expected


def test_every_folder_of_state_has_the_version_of_the_micro_batch() -> None:
    whole = ["state/0/0/5.changelog", "state/0/0/4.changelog", "state/0/1/left/5.zip", "state/0/1/right/5.delta"]
    assert lacking([*whole, "metadata", "state/0/0/SSTs/5.sst", "state/0/_metadata/metadata"], 4) == []
    assert lacking(whole, 5) == ["state/0/0", "state/0/1/left", "state/0/1/right"]
    assert lacking([*whole, "state/0/1/keys/4.changelog"], 4) == ["state/0/1/keys"]


def test_an_operator_whose_state_is_written_elsewhere_is_named() -> None:
    """A driver writes what an operator is, and executors, perhaps on another machine, its state."""
    assert lacking(["state/0/_metadata/metadata", "state/1/0/5.changelog"], 4) == ["state/0"]
    assert lacking(["offsets/4", "commits/3"], 4) == []
