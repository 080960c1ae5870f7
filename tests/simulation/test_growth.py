"""A job that runs for long keeps its topics within bounds; `python -m tests.simulation.growth` runs it for longer."""

from __future__ import annotations

from holdfast.schemas.topics import Partition, TopicSpec
from tests.simulation.growth import CALM, grow, police
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.timeline import EPOCH_MS, Timeline

MOST = {"cuts": 150, "data": 100, "checkpoints": 200, "assignments": 50}
"""Records in a partition."""
MOST_MIB = 1
"""Limit of all topics together."""


def test_trimmed_logs_stay_within_bounds() -> None:
    most = grow(60).records
    assert all(max(most[kind]) <= bound for kind, bound in MOST.items()), most
    assert most["cuts"][2] <= most["cuts"][1] * 1.2, most


def test_hours_in_which_jobs_come_and_go_leave_every_topic_flat() -> None:
    found = grow(3 * 3600, CALM)
    assert found.most_mib < MOST_MIB
    assert not found.not_flat(), found.bytes


def test_kafka_deletes_what_is_old_or_too_much_and_keeps_the_newest_of_each_key() -> None:
    timeline = Timeline()
    broker = Broker(timeline)
    settings = {
        "aged": {"cleanup.policy": "delete", "retention.ms": "1000"},
        "small": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "250"},
        "newest": {"cleanup.policy": "compact", "segment.ms": "1000", "delete.retention.ms": "2000"},
        "all": dict[str, str](),
    }
    broker.create([TopicSpec(topic, config=config) for topic, config in settings.items()])
    for second in range(6):
        timeline.now_us = second * 1_000_000
        for topic in settings:
            broker.put(Partition(topic, 0), b"x" * 30, b"k%d" % (second % 2), None)
    broker.put(Partition("newest", 0), None, b"k0", None)

    def left(ms: int) -> dict[str, list[int]]:
        police(broker, EPOCH_MS + ms)
        return {topic: [one.offset() for one in broker.scan(Partition(topic, 0))] for topic in settings}

    assert left(5_500) == {"aged": [5], "small": [4, 5], "newest": [5, 6], "all": [0, 1, 2, 3, 4, 5]}
    assert left(9_500) == {"aged": [], "small": [4, 5], "newest": [5], "all": [0, 1, 2, 3, 4, 5]}
