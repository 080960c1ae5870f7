"""Nexmark's queries on a cluster, each compared with Flink SQL: the same records of the same broker, in turn.

Flink runs in one process with one task for each step, from PyPI's apache-flink, installed on first use, with a
checkpoint a second into files and at least once; Holdfast with its defaults, exactly once. Both get a core and more.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from string import Template

import polars as pl

from bench.measures.nexmark.events import Events
from bench.measures.nexmark.flink_queries import LEFT_OUT, QUERIES, statements
from bench.measures.nexmark.measure import records, side_rows
from bench.measures.nexmark.queries import READS, SIDE, job_file
from bench.measures.peers.environment import PeerMissing, environment_of
from bench.rig.cluster import POLL_EVERY, BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import DEADLINE_S, MeasureFailed
from bench.rig.machine import trees_cpu_s
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.codecs.fields import TIME
from holdfast.services.node.machine.artifacts import INFRA, ArtifactsMissing, ensure
from holdfast.services.node.machine.java import JavaMissing, find_java

FLINK = "apache-flink==2.2.0"
PROGRAM = INFRA / "peers" / "flink_sql.py"
GRACE_S = 10.0
FLINK_S = 180.0
"""Longest time of a query of Flink."""


def beside_flink(cluster: BenchCluster, events: Events) -> Figures:
    """Records a second and CPU seconds per million of each query, Holdfast's and Flink's, and their ratios. If Flink
    cannot be installed, that is reported, and its figures are left out.
    """
    cluster.start(1, {"HOLDFAST_PLUGINS": "bench"})
    _preload(cluster, events)
    try:
        flink: list[str] | None = [str(environment_of([FLINK])), str(PROGRAM), _connector()]
    except (PeerMissing, ArtifactsMissing, JavaMissing) as error:
        how = f"it takes Java, {FLINK} from PyPI and its connector to Kafka from Maven Central"
        cluster.say(f"  Flink SQL is left out, {how}: {error}")
        flink = None
    figures: Figures = {}
    for query in READS:
        cluster.say(f"  q{query} ...")
        read = records(events, READS[query])
        ours = _ours(cluster, query, events, read)
        figures |= {f"q{query}_{figure}": value for figure, value in ours.items()}
        if flink is None or query not in QUERIES:
            if query in LEFT_OUT:
                cluster.say(f"  q{query} is not run on Flink: {LEFT_OUT[query]}")
            continue
        try:
            theirs = _theirs(cluster, query, flink, read)
        except MeasureFailed as error:
            cluster.say(f"  q{query} is left out of Flink's: {error}")
            continue
        figures |= {f"q{query}_flink_{figure}": value for figure, value in theirs.items()}
        figures[f"q{query}_speed_over_flink"] = round(ours["records_per_s"] / theirs["records_per_s"], 2)
        figures[f"q{query}_cpu_below_flink"] = round(
            theirs["cpu_s_per_million"] / max(ours["cpu_s_per_million"], 0.01), 2
        )
    return figures


def _connector() -> str:
    found = ensure("flink")
    return str(found.directory / next(iter(found.sums)))


def _preload(cluster: BenchCluster, events: Events) -> None:
    """Persons, auctions, bids and the table of query 13, each a topic of one partition."""
    tables = {**events.frames, "side": side_rows().select(list(SIDE))}
    cluster.create(*tables)
    for name, rows in tables.items():
        for number, line in enumerate(lines(rows)):
            key = json.dumps([number]).encode() if name == "side" else None
            cluster.appender.append(Partition(name, 0), line, key=key)
            if number % POLL_EVERY == 0:
                cluster.appender.poll()
        cluster.appender.flush(DEADLINE_S)


def lines(rows: pl.DataFrame) -> Iterator[bytes]:
    """JSON with times to the millisecond, without a zone: as both take them."""
    plain = rows.drop(TIME, strict=False)
    times = [name for name, kind in plain.schema.items() if isinstance(kind, pl.Datetime)]
    texts = plain.with_columns(pl.col(times).dt.strftime("%Y-%m-%dT%H:%M:%S%.3f"))
    return (line.encode() for line in texts.write_ndjson().splitlines())


def _ours(cluster: BenchCluster, query: int, events: Events, read: int) -> Figures:
    """Figures from the job's admission to its last record, with the start of its units."""
    cluster.log.create([TopicSpec(f"q{query}", 1)])
    text = job_file(query, events.held_s).replace("$", "$$")
    before = cluster.cpu_s()
    with cluster.running(Template(text), f"nexmark-{query}") as job:
        began_s = time.monotonic()
        job.await_records(read)
        took_s, spent_s = time.monotonic() - began_s, cluster.cpu_s() - before
    return _figures(read, took_s, spent_s)


def _theirs(cluster: BenchCluster, query: int, command: list[str], read: int) -> Figures:
    """Figures from the start of Flink's job to its end, without the start of Java and the planning. Raises
    MeasureFailed.

    Java compiles frequent code in the first seconds: with few records that is most of the time.
    """
    cluster.log.create([TopicSpec(f"q{query}-flink", 1)])
    folder = cluster.folder / "peers" / f"flink-{query}"
    folder.mkdir(parents=True)
    wanted = folder / "statements.json"
    wanted.write_text(json.dumps(statements(query, cluster.bootstrap_servers, f"q{query}-flink")))
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(
            [*command, str(wanted)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env={"JAVA_HOME": str(Path(find_java().path).resolve().parents[1]), "PATH": "/usr/bin:/bin", "TZ": "UTC"},
        )
        try:
            _await(child, "ready", folder / "log")
            began_s, before = time.monotonic(), trees_cpu_s([child.pid])
            _await(child, "done", folder / "log")
            took_s, spent_s = time.monotonic() - began_s, trees_cpu_s([child.pid]) - before
        finally:
            _end(child)
    return _figures(read, took_s, spent_s)


def _figures(read: int, took_s: float, spent_s: float) -> Figures:
    return {"records_per_s": round(read / took_s), "cpu_s_per_million": round(spent_s / read * 1e6, 2)}


def _await(child: subprocess.Popen[str], word: str, log: Path) -> None:
    assert child.stdout is not None
    late = threading.Timer(FLINK_S, child.terminate)
    late.start()
    try:
        for line in child.stdout:
            if line.strip() == word:
                return
    finally:
        late.cancel()
    causes = [line for line in log.read_text().splitlines() if "Exception" in line or "Error" in line]
    raise MeasureFailed(
        f"Flink SQL ended, or was ended after {FLINK_S:.0f} s, before it was {word}: {'; '.join(causes[-2:])[:500]}"
    )


def _end(child: subprocess.Popen[str]) -> None:
    """Java ends with the program that started it."""
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.terminate()
        child.wait(GRACE_S)
