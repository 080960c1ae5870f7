"""The command `events`: what happened, for people a line each, for scripts every record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Follow, Json, KafkaAt, complete_jobs
from holdfast.services.cli.terminal import print_json, say
from holdfast.services.kernel.errors import USAGE, CommandFailed

if TYPE_CHECKING:
    from holdfast.schemas.events import Event
    from holdfast.services.view.door import Door
    from holdfast.services.view.happenings import Happening

RECENT_MS = 24 * 3_600_000
"""Age in milliseconds up to which `status` counts failures."""


def events(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="Only of this job; without it, of all.",
            show_default=False,
            autocompletion=complete_jobs,
        ),
    ] = None,
    follow: Follow = False,
    of_job: Annotated[str | None, typer.Option("--job", help="The same as JOB.", show_default=False)] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Every record: decisions, steps of copies, phases in milliseconds.")
    ] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show what happened, oldest first: a failure is one line, with who died and how long each unit was silent.

    A failure leaves dozens of records: --all shows them, and times split into detection, activation, replay. --json
    gives every record with all its fields, one object a line.
    """
    from holdfast.services.cli.whereabouts import connected

    if job is not None and of_job is not None and job != of_job:
        raise CommandFailed(f"two jobs are named: {job} and {of_job}", "write one of them", USAGE)
    name = (job or of_job or "").partition("@")[0]
    with connected(data_dir, kafka) as door:
        count = 0
        for line in _lines(door, name, follow=follow, every=every, as_json=as_json):
            print_json(line) if as_json else say(str(line))
            count += 1
        if name and not count and not as_json:
            _check_known(door, name)


def _lines(door: Door, job: str, *, follow: bool, every: bool, as_json: bool) -> Iterator[Event | str]:
    from holdfast.services.view.happenings import Story, happenings_of

    found = _read(door, job, follow=follow, cluster=not every and not as_json)
    if as_json:
        yield from found
    elif every:
        yield from map(_event_line, found)
    elif not follow:
        yield from map(_happening_line, happenings_of(found, job))
    else:
        story = Story(job)
        for event in found:
            yield from map(_happening_line, story.read(event))


def _read(door: Door, job: str, *, follow: bool, cluster: bool) -> Iterator[Event]:
    """Events of a job.

    cluster: true to include events without a job.
    """
    import msgspec

    from holdfast.schemas.events import decode
    from holdfast.services.node.members.readiness import NO_JOB
    from holdfast.services.view.tail import read_topic

    for _, message in read_topic(door.log, door.topics.events, 1, follow=follow):
        try:
            event = decode(message.value() or b"")
        except msgspec.DecodeError:
            continue
        wanted = not job or event.job == job or (cluster and not event.job)
        if wanted and not event.job.startswith(NO_JOB):
            yield event


def failures_of(door: Door, job: str) -> str:
    """Text with the number of worker failures that struck the job in the last day, and the last one; empty: none."""
    import time

    from holdfast.services.view.happenings import happenings_of, summary
    from holdfast.services.view.reader import read_events

    since_ms = int(time.time() * 1000) - RECENT_MS
    found = (event for event in read_events(door, since_ms) if event.job in ("", job))
    return summary(happenings_of(found, job))


def _check_known(door: Door, job: str) -> None:
    """Raises CommandFailed if there is no such job."""
    from holdfast.services.view.reader import named_job, read_jobs

    named_job(read_jobs(door), job)


def _happening_line(one: Happening) -> str:
    return f"{datetime.fromtimestamp(one.time_ms / 1000).strftime('%Y-%m-%d %H:%M:%S')}  {one}"


def _event_line(event: Event) -> str:
    at = datetime.fromtimestamp(event.time_ms / 1000).strftime("%H:%M:%S.%f")[:-3]
    where = " ".join(filter(None, (event.job, event.unit, event.worker)))
    phases = ", ".join(f"{phase} {ms:.0f} ms" for phase, ms in event.phases_ms.items())
    epoch = f"epoch {event.epoch}" if event.epoch >= 0 else ""
    return f"{at}  {event.kind:<20} {'  '.join(filter(None, (where, epoch, event.detail, phases)))}".rstrip()
