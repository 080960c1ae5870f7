"""Submissions of jobs on Spark: how long a person waits until such a job runs, or is refused."""

from __future__ import annotations

import time
from pathlib import Path
from string import Template

from bench.rig.cluster import BenchCluster, run_command
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.scale import Scale
from holdfast.schemas.topics import TopicSpec

JOB = Template("""
name: $name
sources: {events: {topic: $topic, fields: {user: string, amount: int, at: timestamp}, event_time: at, unit: ms}}
operators: {h: {spark: {sql: "$query"}, input: events}}
queries: {q: {input: h, sink: {topic: $topic-out}}}
""")
QUERY = "SELECT window(at, '10 seconds'), user, count(*) AS n, sum(amount) AS total FROM input GROUP BY 1, 2"
MISTAKE = "SELECT nothing FROM input"


def submission(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Seconds that `holdfast` takes: for the first job of a cluster, which starts two drivers, for the next one, for
    one that Spark refuses, and for a check.
    """
    topics = [f"bench-{name}-{each}" for each in ("first", "next")]
    cluster.log.create([TopicSpec(topic + end, 1) for topic in topics for end in ("", "-out")])
    first, following = (_file(cluster, topic, QUERY) for topic in topics)
    return {
        "first_s": _took_s("submit", first, cluster),
        "next_s": _took_s("submit", following, cluster),
        "refused_s": _took_s("submit", _file(cluster, topics[0], MISTAKE), cluster, refused=True),
        "check_s": _took_s("check", first, cluster),
    }


def _file(cluster: BenchCluster, topic: str, query: str) -> Path:
    name = topic if query == QUERY else f"{topic}-mistaken"
    file = cluster.folder / f"{name}.yaml"
    file.write_text(JOB.substitute(name=name, topic=topic, query=query))
    return file


def _took_s(command: str, file: Path, cluster: BenchCluster, *, refused: bool = False) -> float:
    """Seconds that the command took. Raises MeasureFailed, also if a mistake is not refused."""
    began_s = time.monotonic()
    try:
        run_command(command, str(file), "--data-dir", str(cluster.folder))
    except MeasureFailed as error:
        if not refused or "nothing" not in str(error):
            raise
    else:
        if refused:
            raise MeasureFailed(f"{file} is not refused")
    return round(time.monotonic() - began_s, 2)
