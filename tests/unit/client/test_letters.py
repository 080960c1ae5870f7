"""Dead letters are found as long as they are kept, also of a job that no log of jobs names any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.memory import MemoryLog
from holdfast.services.view.door import Door, Whereabouts
from holdfast.services.view.letters import find_letters

TOPICS = ClusterTopics("c")


def door(*generations: str) -> Door:
    """To a cluster that has forgotten all its jobs, and keeps dead letters of these runs of one."""
    log = MemoryLog(lambda: 0)
    log.create(TOPICS.specs())
    for one in generations:
        own = TOPICS.job("flights", one)
        log.create([spec for spec in own.specs(1, {}) if spec.name == own.dead_letters])
    return Door(log, TOPICS, log.topics(), Whereabouts(Path(), "here:9092", "c", False))


def test_the_newest_letters_of_a_retired_job_are_found_unless_a_generation_is_named() -> None:
    there = door("9-abcdef", "10-abcdef")
    assert find_letters(there, "flights").generation == "10-abcdef"
    assert find_letters(there, "flights@9-abcdef").generation == "9-abcdef"


def test_the_other_generations_are_named_if_the_letters_of_one_are_gone() -> None:
    with pytest.raises(CommandFailed, match="no dead letters of flights@8-abcdef are kept") as failed:
        find_letters(door("9-abcdef", "10-abcdef"), "flights@8-abcdef")
    assert failed.value.hint == "there are those of flights@9-abcdef, flights@10-abcdef"


def test_a_name_of_nothing_is_no_job() -> None:
    with pytest.raises(CommandFailed, match="there is no job 'ships'"):
        find_letters(door("9-abcdef"), "ships")
