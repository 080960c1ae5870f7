"""The command that finds the records that block a job, and skips them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import print_json, print_table, say, waiting
from holdfast.services.kernel.errors import CommandFailed

if TYPE_CHECKING:
    from holdfast.services.client.bad_records import PoisonLine


def repair(
    job: JobName,
    listed: Annotated[bool, typer.Option("--list", help="List them; this is the default.")] = False,
    skip: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC[:PARTITION]:OFFSET", help="Pass over this record of the job's own topics, for good."
        ),
    ] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Find records on a job's own topics that hold it up, and skip them.

    A record that cannot be read, or cannot be true, is passed over by itself; the event record-refused says which and
    why. What is well formed and yet wrong holds the job up: `status` says failed, and this command names the record.
    A cut of records that do not exist is such a one, or a frame with other rows than the same frame before it.

    --skip decides, in the cluster's log, that every reader passes over that record as if it were not there. The job's
    copies then restart from their checkpoints. Skip what should never have been written, and nothing else: the
    rows of a true frame are gone with it, and the batches behind a skipped cut are cut again.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client import bad_records
    from holdfast.services.view.cluster import OVER
    from holdfast.services.view.reader import named_job, read_jobs

    with connected(data_dir, kafka) as door:
        view = read_jobs(door)
        line = named_job(view, job)
        plan = view.plan(line.generation)
        if plan is None or line.state in OVER:
            raise CommandFailed(f"job {line.job} does not run: there is nothing to repair")
        if skip is None:
            with waiting(f"reading the topics of {line.job} ...", quiet=as_json):
                found = bad_records.search(door, plan)
            _show(found, line.job, as_json)
            return
        at, offset = bad_records.place(skip, plan, door.topics.job(plan.job, plan.generation), door.present)
        bad_records.skip(door, plan, at, offset)
    if as_json:
        print_json({"job": line.job, "topic": at.topic, "partition": at.index, "offset": offset, "skipped": True})
    else:
        say(f"{at} offset {offset} is skipped; `holdfast status {line.job}` shows whether the job continues")


def _show(found: list[PoisonLine], job: str, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (
            f"{one.topic}:{one.partition}:{one.offset}",
            "skipped" if one.skipped else "yes" if one.holds else "no",
            one.cause,
        )
        for one in found
    ]
    print_table(("record", "holds the job up", "cause"), rows, empty=f"nothing is wrong in the topics of {job}")
