"""Commands that take a job file: check, which only reads, and submit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.services.cli.carrying_options import DropState, Renamed, Reread, carrying
from holdfast.services.cli.options import CreateTopics, DataDir, Json, KafkaAt, Partitions
from holdfast.services.cli.terminal import note, print_json, print_plain, print_table, say, waiting
from holdfast.services.kernel.errors import USAGE, CommandFailed

if TYPE_CHECKING:
    from holdfast.schemas import savepoints
    from holdfast.schemas.plans import Plan, Problem
    from holdfast.services.view.door import Door

File = Annotated[
    Path, typer.Argument(metavar="JOB.yaml", help="The job file, YAML or JSON, or a job in Python: my_jobs.py:flights.")
]


def check(file: File, data_dir: DataDir = None, kafka: KafkaAt = None, as_json: Json = False) -> None:
    """Say what is wrong with a job file, or show its plan. Nothing is started; no cluster is needed."""
    from holdfast.services.cli.whereabouts import allowed, patience_with
    from holdfast.services.client.job_files import read_job
    from holdfast.services.client.planned_job import plan
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.planning.description import became

    try:
        job = read_job(file, lambda: patience_with(data_dir, kafka))
        present, prefix = _cluster_topics(data_dir, kafka)
        found = plan(job.spec, present, prefix, allowed(job.spec, data_dir))
        _show(found, prefix, present is not None, as_json, became(job.spec, found))
    except JobRejected as rejected:
        refuse(str(file), rejected.problems, as_json)


def _cluster_topics(data_dir: Path | None, kafka: str | None) -> tuple[dict[str, int] | None, str]:
    """Partitions by topic, and the prefix; None for the topics where no cluster is named and none runs."""
    from holdfast.services.cli.whereabouts import connected, find, load_settings

    try:
        find(data_dir, kafka)
    except CommandFailed:
        return None, load_settings(data_dir).cluster
    with connected(data_dir, kafka, any_kafka=True) as door:
        return door.present, door.topics.prefix


def _show(plan: Plan, prefix: str, on_cluster: bool, as_json: bool, became: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints a plan.

    became: operators that replace each query in SQL.
    """
    from holdfast.schemas.topics import JobTopics
    from holdfast.services.planning.description import sections, summary, written_out

    topics = JobTopics(prefix, plan.job, plan.generation)
    if as_json:
        print_json({**summary(plan, topics), "sql": became, "problems": [], "cluster": on_cluster})
        return
    for section in (*sections(plan, topics), written_out(became)):
        if section.rows:
            print_table(section.columns, section.rows, title=section.title)
    if _has_rows_without_seal(plan):
        note("Spark reads or writes rows of this job by itself, so those have no seal: a stranger's would count")
    say(f"job {plan.job} is all right" + ("" if on_cluster else "; no cluster runs, so topics were not looked at"))


def _has_rows_without_seal(plan: Plan) -> bool:
    """True if Spark's own reader and writer of rows know nothing of the seal of the cluster's secret."""
    from holdfast.schemas.plans import REAL_TIME
    from holdfast.services.log.seal.secret import keyring

    return any(one.every_writer or one.mode == REAL_TIME for one in plan.spark) and keyring() is not None


def refuse(name: str, problems: tuple[Problem, ...], as_json: bool) -> None:
    from holdfast.services.client.submission import problem_lines
    from holdfast.services.kernel.plurals import plural

    if as_json:
        print_json({"job": None, "state": "rejected", "problems": problem_lines(problems)})
    else:
        for one in problems:  # a table would fold a hint, which is often a command to copy
            print_plain(f"{one.path}: {one.message}" + (f"\n    {one.hint}" if one.hint else ""))
    raise CommandFailed(f"{name} has {plural(len(problems), 'problem')}, nothing was started", code=USAGE)


def submit(
    file: File,
    create_topics: CreateTopics = False,
    partitions: Partitions = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0.1, help="Seconds to wait; default: 60, for each operator on Spark 240 more."),
    ] = None,
    savepoint: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DIR", help="Begin with a savepoint, its directory or URL: its positions and its state."
        ),
    ] = None,
    drop_state: DropState = None,
    reread: Reread = None,
    renamed: Renamed = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Start a job; returns when it runs, or says why it does not."""
    from holdfast.services.cli.whereabouts import allowed, connected, patience_with
    from holdfast.services.client import submission
    from holdfast.services.client.job_files import read_job
    from holdfast.services.client.planned_job import missing_topics, plan
    from holdfast.services.client.registration import with_schemas
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.kernel.plurals import plural
    from holdfast.services.log.kafka.registry import open_registry
    from holdfast.services.view.protection import said

    try:
        job = read_job(file, lambda: patience_with(data_dir, kafka))
        spark, starting = submission.on_spark(job.spec), f"starting job {job.spec.name} ..."
        with connected(data_dir, kafka) as door, waiting(starting, quiet=as_json) as report:
            if create_topics:
                allow = allowed(job.spec, data_dir)
                door.log.create(missing_topics(job.spec, door.present, door.topics.prefix, allow, partitions))
            raw = with_schemas(
                job.raw,
                job.spec,
                lambda: plan(job.spec, None, door.topics.prefix, allowed(job.spec, data_dir)),
                open_registry,
                lambda: patience_with(data_dir, kafka),
            )
            patience_s = timeout or submission.patience_s(spark)
            with _begun(door, raw, savepoint, carrying(drop_state, reread, renamed)):
                done = submission.submit(door, raw, patience_s, report if spark else lambda how_far: None)
            warnings = [*done.status.warnings, *submission.sink_warnings(door, done.generation)]
            unprotected = submission.unprotected(door, done.generation)
    except JobRejected as rejected:
        refuse(str(file), rejected.problems, as_json)
        return
    if as_json:
        print_json(
            {"job": done.job, "generation": done.generation, "state": "running", "units": done.status.units,
             "warnings": warnings, "unprotected": unprotected}
        )  # fmt: skip
        return
    for warning in warnings:
        note(f"warning: {warning}")
    say(f"job {done.job} runs as {done.generation} in {plural(done.status.units, 'unit')}")
    for line in said(unprotected, done.status.units):
        say(line)


@contextmanager
def _begun(door: Door, raw: dict[str, Any], savepoint: str | None, how: savepoints.Start) -> Iterator[None]:
    """Adds a savepoint, if one is named, to the job; a savepoint of a refused job is deleted from the cluster."""
    from holdfast.services.kernel.errors import JobRejected

    if savepoint is None:
        if how.drop_state or how.reread or how.renamed:
            message = "--drop-state, --reread and --renamed concern a savepoint"
            raise CommandFailed(message, "name it: --from DIR", USAGE)
        yield
        return
    from holdfast.services.client.places import place_of
    from holdfast.services.client.savepoints import begin_with

    start = begin_with(door, raw, place_of(savepoint), how)
    try:
        yield
    except JobRejected:
        door.log.delete([start.topic])
        raise
