"""The only table of measures: their questions, jobs and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bench.measures.beside_count import BesideCount
from bench.measures.carried import carried
from bench.measures.checkpoint import checkpoint
from bench.measures.choosing import choosing
from bench.measures.code import code
from bench.measures.cold import cold
from bench.measures.console import console
from bench.measures.console_memory import console_memory
from bench.measures.cost import cost
from bench.measures.counting import counting
from bench.measures.crowded import crowded
from bench.measures.disk import disk, growth
from bench.measures.forking import SHAPES as FORKED_SHAPES
from bench.measures.forking import forking
from bench.measures.imports import imports
from bench.measures.isolation import isolation
from bench.measures.latency import latency
from bench.measures.nexmark.command import nexmark_queries
from bench.measures.overhead import overhead
from bench.measures.peers.against import against_peers
from bench.measures.peers.peer import PEERS
from bench.measures.permitted import permitted
from bench.measures.planning import planning
from bench.measures.registry import registry
from bench.measures.replicas import replicas
from bench.measures.replication import replication
from bench.measures.requests import requests
from bench.measures.rest import Rest
from bench.measures.restore import restore
from bench.measures.rhythm import rhythm
from bench.measures.seal import seal
from bench.measures.sizing import sizing
from bench.measures.spark import spark
from bench.measures.spark_checkpoints import spark_checkpoints
from bench.measures.spark_memory import spark_memory
from bench.measures.spark_struck import spark_struck
from bench.measures.startup import PROCESSES, startup
from bench.measures.submission import submission
from bench.measures.sums import SHAPES, sums
from bench.measures.takeover_size import takeover_size
from bench.measures.throughput import Throughput
from bench.measures.turns import MOST_MS, turns
from bench.measures.updates import KEYS, Updates
from bench.measures.zombie import SCHEMES as ZOMBIE_SCHEMES
from bench.measures.zombie import zombie
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures, Target, at_least, at_most
from bench.rig.scale import Scale


class Run(Protocol):
    """A run in a cluster that is up. Raises MeasureFailed."""

    def __call__(self, cluster: BenchCluster, name: str, scale: Scale, /) -> Figures: ...


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure.

    workers: number of workers of its cluster; 0: the measure starts the cluster itself.
    alone: true if no other measure runs in its cluster.
    standard: true if it is part of the default set.
    quick: true if it is part of the quick set too.
    """

    name: str
    about: str
    run: Run
    targets: Mapping[str, Target] = field(default_factory=dict)
    workers: int = 1
    alone: bool = False
    standard: bool = True
    quick: bool = True


MEASURES = (
    Measure(
        "count-1k",
        "keyed running count, JSON in and out, 1,000 keys",
        Throughput(jobs.COUNT, keys=1_000),
        {"records_per_s": at_least(300_000), "cpu_s_per_million": at_most(3)},
    ),
    Measure(
        "count-100k",
        "the same with 100,000 keys",
        Throughput(jobs.COUNT, keys=100_000),
        {"records_per_s": at_least(100_000)},
    ),
    Measure(
        "filter",
        "filter and select that keep 20 % of the records",
        Throughput(jobs.FILTER, keys=1_000),
        {"records_per_s": at_least(500_000)},
    ),
    Measure(
        "sliding",
        "count and mean by key in windows of 10 s each 1 s, final; 1,000 keys, 10 records in a ms of event time",
        Throughput(jobs.SLIDING, keys=1_000, per_ms=10),
        {"records_per_s": at_least(300_000)},
    ),
    Measure(
        "sessions",
        "count and mean by key in sessions of 20 records, with a gap of 3 s; 1,000 keys; beside count-1k",
        BesideCount(Throughput(jobs.SESSIONS, keys=1_000, burst=20_000, pause_ms=5_000)),
        {"records_per_s": at_least(150_000), "over_count": at_least(0.29)},
    ),
    Measure(
        "as-of",
        "each row of a stream with the newest row of another one as of its time; 1,000 keys; beside count-1k",
        BesideCount(Throughput(jobs.AS_OF, keys=1_000, topics=("", "-right"))),
        {"records_per_s": at_least(100_000), "over_count": at_least(0.19)},
    ),
    Measure(
        "join",
        "stream-stream join on a key within 60 s; one partner each, 1 record in a ms of event time on each side",
        Throughput(jobs.JOIN, keys=100_000, topics=("", "-right")),
        {"records_per_s": at_least(100_000)},
    ),
    Measure(
        "each",
        "keyed running count, one row out for each record in, 1,000 keys",
        Throughput(jobs.EACH, keys=1_000),
    ),
    Measure(
        "latency",
        "2,000 records/s through source, two units and sink: append to read_committed result, mean by hop",
        latency,
        {"p50_ms": at_most(20), "p99_ms": at_most(80)},
        alone=True,
    ),
    Measure(
        "checkpoint",
        "50,000 records/s on 100,000 keys, all changed between two checkpoints; with them and without",
        checkpoint,
        {"longest_step_ms": at_most(5)},
        alone=True,
    ),
    *(
        Measure(
            f"workers-{workers}",
            f"count-1k on 4 partitions with 4 source tasks and {workers} workers",
            Throughput(jobs.COUNT, keys=1_000, partitions=4),
            workers=workers,
            alone=True,
            quick=workers == 2,
        )
        for workers in (1, 2, 4)
    ),
    Measure(
        "rest",
        "a worker with a job of 2 units and no data",
        Rest(jobs.TWO_UNITS),
        {"max_cpu_percent": at_most(2)},
        alone=True,
    ),
    Measure(
        "rest-16",
        "3 workers with a 16-8-4-2-1 job and no data",
        Rest(jobs.PYRAMID),
        {"max_cpu_percent": at_most(2)},
        workers=3,
        alone=True,
    ),
    Measure(
        "restore",
        "a unit of 1,000,000 keys after its worker was killed: idle, and busy with 100,000 other keys/s",
        restore,
        {"idle_restore_s": at_most(5), "busy_restore_s": at_most(5)},
        alone=True,
    ),
    Measure(
        "carried",
        "a savepoint and updates of a job with 1,000,000 keys at 2,000 records/s: how long it takes nothing in",
        carried,
        {"savepoint_and_restore_s": at_most(30)},
        alone=True,
        standard=False,
    ),
    Measure(
        "updates",
        "updates of a job with 100,000 keys at 2,000 records/s: how long its sink is silent, and that no row is amiss",
        Updates(jobs.EACH, KEYS, counted=True),
        {"silence_ms": at_most(1000)},
        alone=True,
        standard=False,
    ),
    Measure(
        "updates-stateless",
        "the same of a job without state, at 2,000 records/s of which a fifth is delivered",
        Updates(jobs.FILTER, 0, counted=False),
        {"silence_ms": at_most(300)},
        alone=True,
        standard=False,
    ),
    Measure(
        "updates-doubled",
        "the same of the job with 100,000 keys, whose tasks are doubled and halved in turn: state is split and merged",
        Updates(jobs.SPLIT, KEYS, counted=True, parallel=(1, 2)),
        {"silence_ms": at_most(1000)},
        alone=True,
        standard=False,
    ),
    Measure(
        "code",
        "records/s through users' code, beside the same that asks for the time of day, and that awaits answers",
        code,
        {"clock_cpu_over_plain": at_most(1.2)},
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "cold",
        "`up` to a job admitted, `try` on 1,000 rows",
        cold,
        {"up_to_admitted_s": at_most(15), "try_s": at_most(2)},
        workers=0,
        alone=True,
    ),
    Measure(
        "console",
        "the console on a job of 500 tasks with 50 updates a second, in a headless Chromium",
        console,
        {
            "usable_s": at_most(1),
            "visible_ms": at_most(500),
            "longest_task_ms": at_most(50),
            "viewed_cpu_percent": at_most(10),
            "alone_cpu_percent": at_most(1),
        },
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "console-memory",
        "memory of the console's process while a Chromium goes through its pages for --minutes, on a job of 500 tasks",
        console_memory,
        {"slope_mib_per_h": at_most(5)},
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "peers",
        "each, and the same on Kafka Streams (exactly once), Bytewax, Quix and Faust, brought when first asked for",
        against_peers,
        {f"{figure}_{peer.name}": at_least(1) for peer in PEERS for figure in ("speed_over", "cpu_below")},
        alone=True,
        standard=False,
    ),
    Measure(
        "disk",
        "Kafka's disk against what the protocol keeps, at 20,000 records/s (--minutes)",
        disk,
        {"max_ratio": at_most(2)},
        alone=True,
        standard=False,
    ),
    Measure(
        "sizing",
        "what a cluster needs: CPU of a small batch in each of four units; memory, checkpoint and image of a key; what "
        "a job writes to Kafka in a day, at 200 records/s and with none",
        sizing,
        alone=True,
        standard=False,
    ),
    Measure(
        "growth",
        "bytes of every topic while a small job runs, 1,000 records/s (--minutes 30: some take 17 to fill)",
        growth,
        {"topics_not_flat": at_most(0)},
        alone=True,
        standard=False,
    ),
    Measure(
        "cost",
        "CPU of every process while 2,000 records/s pass four units: a batch every 10 ms, and by latency_ms",
        cost,
        {"budget_100_cores_over_often": at_most(0.3)},
        alone=True,
        standard=False,
    ),
    Measure(
        "crowded",
        "a hybrid job at 2,000 records/s, all of its cluster on two thirds of one CPU: cores, delays, kills",
        crowded,
        {
            "share_percent": at_most(60),
            "p50_ms": at_most(300),
            "p99_ms": at_most(1_000),
            "kill_p50_ms": at_most(250),
            "kill_p90_ms": at_most(500),
            "kill_worst_ms": at_most(1_000),
        },
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "requests",
        "requests at the broker by client and kind, of a hybrid job at 2,000 records/s with a batch each 200 to 300 ms",
        requests,
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "choosing",
        "count-1k while recovery weighs its schemes, and while its scheme is fixed: by turns in the same job",
        choosing,
        {"differs_by": at_most(0.03)},
        workers=2,
        alone=True,
        standard=False,
    ),
    Measure(
        "rhythm",
        "bytes of the cut log and delay of results by batch_interval_ms, 1,000 records/s",
        rhythm,
        alone=True,
        standard=False,
    ),
    Measure(
        "takeover-size",
        "hybrid takeovers of a unit with 1,000 keys and with 1,000,000 (--quick: 200,000), killed in turn",
        takeover_size,
        {"large_over_small": at_most(1.3)},
        workers=4,
        alone=True,
        standard=False,
    ),
    Measure(
        "replicas",
        "hybrid takeovers with two recovery replicas, one of which is killed with the worker every other time",
        replicas,
        {"added_ms": at_most(20)},
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "replication",
        "a replication budget of half of 31 units: the worker of each planned one killed, rates that move, 105 strikes",
        replication,
        {
            "taken_over_by_replica": at_least(15),
            "most_replicas": at_most(15),
            "plans_after_the_move": at_most(1),
            "replanned_after_s": at_most(60),
            "lost": at_most(0),
            "duplicated": at_most(0),
            "wrong": at_most(0),
        },
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "planning",
        "the planner of replicas on three kinds of topologies of 1,000 and of 10,000 units (--quick: 1,000); in one "
        "thread, without a cluster",
        planning,
        {"longest_1000_s": at_most(2), "longest_10000_s": at_most(30)},
        workers=0,
        standard=False,
    ),
    Measure(
        "turns",
        "the longest turns of a replica of recovery over 31 and 1,022 units, while its planner works and else; workers "
        "are simulated, without a cluster",
        turns,
        {"every_31_longest_cpu_ms": at_most(MOST_MS), "planning_1022_longest_cpu_ms": at_most(MOST_MS)},
        workers=0,
        standard=False,
    ),
    Measure(
        "zombie",
        "a sink's worker is frozen with a transaction open: for how long read_committed readers get nothing",
        zombie,
        {f"{scheme}_wait_max_ms": at_most(500) for scheme in ZOMBIE_SCHEMES},
        workers=4,
        alone=True,
        standard=False,
    ),
    Measure(
        "startup",
        "until controller, recovery, worker and `holdfast workers` know where a cluster stands that ran for an hour, "
        "and one that ran for a month (--quick: four days): 4 jobs, 60 takeovers and 20 commands an hour, trimmed",
        startup,
        {f"{process}{cpu}_month_over_hour": at_most(2) for process in PROCESSES for cpu in ("", "_cpu")},
        alone=True,
        standard=False,
    ),
    Measure(
        "submission",
        "`holdfast submit` of a job on Spark until it runs: the first of a cluster, the next one, one with a mistake; "
        "`holdfast check` of it",
        submission,
        {"first_s": at_most(20), "next_s": at_most(10)},
        alone=True,
        standard=False,
    ),
    Measure(
        "overhead",
        "what each scheme costs while nothing fails, for one record of the source and over none: bytes that Kafka "
        "appends (in) and all that goes through it (in and out), rows sent to copies, checkpoint entries; throughput",
        overhead,
        {"hybrid_bytes_in_over_none": at_most(1.15), "hybrid_records_per_s_over_none": at_least(0.9)},
        workers=4,
        alone=True,
        standard=False,
    ),
    Measure(
        "seal",
        "count-1k from 4 source tasks to 4 counting tasks, all in frames: with a secret of the cluster, and without; "
        "no document quotes it: it is run before a change of seals lands (decision 0038)",
        seal,
        {"records_per_s_sealed_over_plain": at_least(0.97), "cpu_s_per_million_sealed_over_plain": at_most(1.03)},
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "counting",
        "what it adds to a batch that copies count their costs: to one of 20 records, one of 10,000 on 1,000 keys, and "
        "one of 10,000 keys; in one thread, without a cluster",
        counting,
        {f"{kind}_share_percent": at_most(1) for kind in ("small", "large", "keys")},
        workers=0,
        standard=False,
    ),
    Measure(
        "imports",
        "`holdfast --help`, and `holdfast try` with 100 records; which modules take the longest to load",
        imports,
        {"help_s": at_most(0.3), "try_s": at_most(1.5)},
        workers=0,
        standard=False,
    ),
    Measure(
        "permitted",
        "a running count with `results: tentative` while nothing is out, over the same with final results: throughput, "
        "CPU time, latency; pairs",
        permitted,
        {
            "records_per_s_over_final": at_least(0.98),
            "cpu_s_per_million_over_final": at_most(1.02),
            "p50_ms_over_final": at_most(1.02),
        },
        alone=True,
        standard=False,
    ),
    Measure(
        "forking",
        "stable batches of a keyed count while a fork of its state is open, beside the same without one, with 20, "
        "1,000 and 10,000 keys; in one thread, without a cluster",
        forking,
        {f"{shape}_added_percent": at_most(10) for shape in FORKED_SHAPES},
        workers=0,
        standard=False,
    ),
    Measure(
        "isolation",
        "a Python operator with isolation: process beside the same in the worker: batches of 20 and of 10,000 records, "
        "with state of 1,000 keys and without; start and memory of a process; in one thread, without a cluster",
        isolation,
        {"stateless_small_added_ms": at_most(1), "stateful_small_added_ms": at_most(1), "start_s": at_most(2)},
        workers=0,
        standard=False,
    ),
    Measure(
        "sums",
        "an aggregate of floats, whose sums are exact, beside the same of ints, with 20, 1,000 and 10,000 keys; in one "
        "thread, without a cluster",
        sums,
        {f"{shape}_floats_over_ints": at_most(1.5) for shape in SHAPES},
        workers=0,
        standard=False,
    ),
    Measure(
        "nexmark",
        "records/s of a core that Nexmark's queries take in, each a job file; 10,000 events in a batch and in a second "
        "of event time; in one thread, without a cluster; with --peers each on a cluster beside Flink SQL, too",
        nexmark_queries,
        workers=0,
        standard=False,
    ),
    Measure(
        "registry",
        "the same rows as JSON, Avro and JSON Schema, decoded by turns in batches of 10,000 and of 1,000; bare readers "
        "of Avro beside; in one thread, without a cluster",
        registry,
        {"avro_10000_over_json": at_least(0.5), "json-schema_10000_over_json": at_least(0.8)},
        workers=0,
        standard=False,
    ),
    Measure(
        "spark",
        "a windowed Spark operator beside Spark alone; latency at 500 records/s in each mode; five kills a scheme",
        spark,
        {
            "share_of_alone": at_least(0.6),
            "micro_batch_p50_ms": at_most(1_000),
            "realtime_p50_ms": at_most(30),
            "realtime_p99_ms": at_most(150),
            "killed_hybrid_p50_ms": at_most(2_500),
            **{
                f"killed_{s}_{what}": at_most(0)
                for s in ("hybrid", "passive")
                for what in ("lost", "duplicated", "wrong")
            },
        },
        alone=True,
        standard=False,
    ),
    Measure(
        "spark-checkpoints",
        "checkpoints of a windowed query through Kafka beside those in a shared folder: time and CPU of a micro-batch",
        spark_checkpoints,
        {"batch_ms_over_shared": at_most(1.5)},
        workers=0,
        alone=True,
        standard=False,
    ),
    Measure(
        "spark-memory",
        "memory of the driver that leads a windowed query at 500 records/s, and of its standby, for --minutes",
        spark_memory,
        {f"{role}_jvm_slope_mib_per_h": at_most(20) for role in ("leader", "standby")},
        alone=True,
        standard=False,
    ),
    Measure(
        "spark-struck",
        "four jobs with state on Spark while drivers and Kafka are killed and frozen, 25 times each (--quick: once): "
        "every row against an independent computation and a replay",
        spark_struck,
        {f"{by}{what}": at_most(0) for by in ("", "replay_") for what in ("lost", "duplicated", "wrong")},
        workers=0,
        alone=True,
        standard=False,
    ),
)
BY_NAME = {measure.name: measure for measure in MEASURES}
