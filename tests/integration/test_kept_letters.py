"""Dead letters of a job that is over, on a real Kafka: they are shown and sent back until their time has come, also
when the cluster has let the job go and another controller runs.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.schemas.plans import Retirement, decode_any
from holdfast.schemas.topics import Partition, TopicSpec
from tests.integration.test_bad_input import PATIENT, append, good, job_file, letters
from tests.support.cluster import LocalCluster, running
from tests.support.commands import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(LocalCluster(tmp_path_factory.mktemp("cluster"), {"HOLDFAST_KEEP_ENDED_JOBS": "1"})) as site:
        yield site


def ended(site: LocalCluster, job: str) -> None:
    site.call("cancel", job)
    until(lambda: site.asked("status", job)["state"] == "ended", f"{job} ends")


def retired(site: LocalCluster, generation: str) -> bool:
    records = [decode_any(value) for value in site.values(site.topics.plans)]
    return any(one.retired.has(generation) for one in records if isinstance(one, Retirement))


def controller(site: LocalCluster) -> int | None:
    """Its process."""
    cluster = site.files.cluster()
    return None if cluster is None else cluster.controller_pid


def end_of_input(site: LocalCluster) -> int:
    where = Partition("bad-in", 0)
    return site.log.offsets([where], "end")[where]


@pytest.mark.long
def test_dead_letters_outlive_the_job_the_log_of_jobs_and_the_controller_for_the_time_in_the_job_file(
    site: LocalCluster, tmp_path: Path
) -> None:
    site.log.create([TopicSpec("bad-in"), TopicSpec("next-in")])
    append(site, "bad-in", good(1), b"not json", good(2), b"nor this")
    site.call("submit", job_file(tmp_path, "bad"), "--create-topics", *PATIENT)
    found, own = letters(site, "bad", 2), site.topics_of("bad")
    ended(site, "bad")
    until(lambda: own.cuts not in site.log.topics(), "the other topics of the job are gone")
    assert site.lines("dead-letters", "bad", "--json") == found

    site.call("submit", job_file(tmp_path, "next"), "--create-topics", *PATIENT)
    ended(site, "next")  # now more jobs are over than the cluster keeps
    until(lambda: retired(site, own.generation), "the job is let go")
    former = controller(site)
    assert former is not None
    os.kill(former, signal.SIGKILL)
    until(lambda: controller(site) not in (None, former), "another controller runs")
    assert "bad" not in site.told("list", "--all")

    assert site.lines("dead-letters", "bad", "--json") == found
    assert "sent 2 records back to bad-in" in site.told("dead-letters", "bad", "--replay")
    assert json.loads(site.call("dead-letters", "bad", "--replay", "--json"))["earlier"] == 2
    assert end_of_input(site) >= 6

    site.log.configure(
        [TopicSpec(own.dead_letters, config={"retention.ms": "1"})]
    )  # the time it was to be kept is over
    site.call("topics", "--clean", "--over")
    assert {own.dead_letters, own.replayed.name}.isdisjoint(site.log.topics())
    assert "there is no job 'bad'" in site.told("dead-letters", "bad", status=2)
