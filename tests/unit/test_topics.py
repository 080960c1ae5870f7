"""What the topics of a job are created with."""

from __future__ import annotations

import pytest

from holdfast.schemas.topics import (
    CUT_SEGMENT_BYTES,
    ROLLS_PER_S,
    SEGMENT_BYTES,
    SHORTEST_ROLL_MS,
    ClusterTopics,
    Partition,
    TopicSpec,
)

JOB = ClusterTopics().job("j", "1-abcdef")


def specs(units: int, frames: int) -> dict[str, TopicSpec]:
    data = {JOB.data("a", 0): frames, JOB.commits("s"): 4, JOB.rows("s"): 4, JOB.query_files("s"): 1}
    return {spec.name.removeprefix(f"{JOB.root}."): spec for spec in JOB.specs(units, data)}


@pytest.mark.parametrize(("partitions", "rolls_ms"), [(1, SHORTEST_ROLL_MS), (4, SHORTEST_ROLL_MS), (31, 7_750)])
def test_topics_trimmed_all_the_time_roll_by_time_and_less_often_with_more_partitions(
    partitions: int, rolls_ms: int
) -> None:
    for name, found in (("data.a.0", specs(1, partitions)), ("checkpoints", specs(partitions, 1))):
        config = found[name].config
        assert int(config["segment.ms"]) == rolls_ms
        assert partitions * 1000 / rolls_ms <= ROLLS_PER_S
        assert int(config["segment.bytes"]) == SEGMENT_BYTES, "many records make large segments, not many"


@pytest.mark.parametrize("name", ["commits.s", "rows.s"])
def test_topics_that_are_seldom_trimmed_do_not_become_many_small_segments(name: str) -> None:
    assert "segment.ms" not in specs(4, 3)[name].config


@pytest.mark.parametrize("name", ["progress", "delivered", "query-files.s"])
def test_a_compacted_topic_does_not_wait_for_a_full_segment(name: str) -> None:
    config = specs(4, 3)[name].config
    assert (config["cleanup.policy"], int(config["segment.ms"]) <= 60_000) == ("compact", True)


def test_a_trim_of_the_cut_log_frees_segments_while_a_job_is_young() -> None:
    config = specs(4, 3)["cuts"].config
    assert (int(config["segment.bytes"]), int(config["segment.ms"])) == (CUT_SEGMENT_BYTES, 600_000)


def test_topics_deleted_by_age_have_segments_of_an_eighth_of_it() -> None:
    """Kafka deletes whole segments: ten minutes of heartbeats would else be kept as long as 16 MiB last."""
    aged = {spec.name.rpartition(".")[2]: spec.config for spec in ClusterTopics().specs()}
    assert int(aged["heartbeats"]["segment.ms"]) == 75_000
    assert int(aged["events"]["segment.ms"]) == int(aged["events"]["retention.ms"]) // 8


def test_dead_letters_are_bounded_in_time_and_bytes() -> None:
    found = {spec.name: spec for spec in JOB.specs(1, {}, keep_letters_ms=90_000, keep_letters_bytes=16 * 2**20)}
    config = found[JOB.dead_letters].config
    assert (config["retention.ms"], config["retention.bytes"]) == ("90000", str(16 * 2**20))
    assert int(config["segment.bytes"]) == 2 * 2**20


def test_topics_that_the_cluster_alone_writes_are_sealed() -> None:
    cluster = ClusterTopics("ours")
    job = cluster.job("flights", "12-abcdef")
    inside = [job.cuts, job.checkpoints, job.progress, job.delivered, job.dead_letters, job.replayed.name]
    inside += [
        job.data("count", 0),
        job.commits("model"),
        job.query_files("model"),
        *(spec.name for spec in cluster.specs()),
    ]
    inside.remove(cluster.submit)
    outside = [
        cluster.submit,
        job.rows("model"),
        "flights",
        "ours",
        "ours.flights",
        "ours.flights.12.cuts",
        "ours.a.b.c",
    ]
    outside += [ClusterTopics("theirs").events, ClusterTopics("theirs").job("flights", "12-abcdef").cuts]
    assert [topic for topic in inside + outside if cluster.sealed(Partition(topic, 0))] == inside
    assert not cluster.sealed(Partition(job.commits("model"), 1))
    assert cluster.sealed(Partition(job.data("count", 0), 1))
