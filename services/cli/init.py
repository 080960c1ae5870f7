"""The command `init`: a job file that runs, from a sample of a file or a topic."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, say
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural

if TYPE_CHECKING:
    from holdfast.services.client.first_job import Draft

MOST_BYTES = 4 * 1024 * 1024
"""Limit of a sample."""


def init(
    file: Annotated[Path, typer.Argument(metavar="[JOB.yaml]", help="The job file to write.")] = Path("job.yaml"),
    sample: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="A file of records: ndjson, csv, parquet, arrow, also .gz.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            help="A topic: its first records are the sample, or, with --from, where they go.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the job. [default: that of the file]", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Write a job file that runs: fields, types and event time are guessed from a sample of records.

    The sample is a file (--from) or the first records of a topic (--topic); without either, on a terminal, the command
    asks. The job counts records by a field with few values, each hour: change it to what you want to know, and see with
    `holdfast try --watch` what comes out.

    Example: holdfast init flights.yaml --from flights.csv.gz
    """  # fmt: skip
    from holdfast.services.node.machine.folders import cause

    if str(file) == "-":
        raise CommandFailed("'-' is no name of a job file", "give a path, such as job.yaml", USAGE)
    if file.exists() and not force:
        raise CommandFailed(f"{file} is there already", "--force writes over it, or give another name", USAGE)
    if sample is None and topic is None:
        sample, topic = _asked()
    called = name or _name(_stem(file) if _stem(file) != "job" else _stem(sample) if sample else str(topic))
    draft = _of_file(sample, called, topic) if sample is not None else _of_topic(str(topic), called, data_dir, kafka)
    try:
        file.write_text(draft.text())
    except OSError as error:
        why = cause(error, file.absolute())
        raise CommandFailed(f"cannot write {file}: {why}", "give a path that can be written", USAGE) from None
    passed = _tried(draft, file, sample)
    if as_json:
        guessed = {"event_time": draft.event_time or None, "unit": draft.unit or None, "key": draft.key or None}
        dead = None if passed is None else len(passed)
        print_json(
            {"file": str(file), "job": draft.name, "fields": draft.fields, **guessed, "left_out": draft.left_out,
             "records": draft.records, "dead_letters": dead}
        )  # fmt: skip
        return
    say(f"{file}: job {draft.name}, {plural(len(draft.fields), 'field')} of {plural(draft.records, 'record')}")
    say(f"event time: {draft.event_time or 'the time at which Kafka got a record'}")
    for reason in (passed or [])[:3]:
        note(f"a record of the sample is a dead letter: {reason}")
    tried = f"--input {draft.source}={sample}" if sample is not None else f"--input {draft.source}=FILE"
    say(f"next: holdfast try {file} --watch {tried if 'path' not in draft.origin else ''}".rstrip())


def _asked() -> tuple[Path | None, str | None]:
    """A file or a topic."""
    if not sys.stdin.isatty():
        raise CommandFailed("init needs a sample", "--from FILE, or --topic TOPIC of a cluster that runs", USAGE)
    given = typer.prompt("A file of records (ndjson, csv, parquet, arrow), or the name of a topic")
    return (Path(given), None) if Path(given).exists() else (None, given)


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _name(text: str) -> str:
    """A name that a job may have."""
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return found if found[:1].isalpha() else f"job-{found}".rstrip("-")


def _of_file(path: Path, name: str, topic: str | None) -> Draft:
    from holdfast.services.client.first_job import draft
    from holdfast.services.client.pipes import refuse_pipe

    refuse_pipe(path, "the job file is to name it")
    records = [record for _, record in zip(range(_sample()), _objects(_values(path)), strict=False)]
    source = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
    return draft(records, name, source, {"topic": topic or name, "path": str(path.resolve())})


def _sample() -> int:
    from holdfast.services.client.first_job import SAMPLE

    return SAMPLE


def _values(path: Path) -> Iterator[bytes]:
    from holdfast.services.client.feed import Feed
    from holdfast.services.client.unusable import UnusableFile

    feed = Feed(path)
    if feed.format == "text":
        raise UnusableFile(f"{path} is a text, whose lines have no fields", "a source of format text reads it")
    return (record for block in feed.blocks() for record in block)


def _of_topic(topic: str, name: str, data_dir: Path | None, kafka: str | None) -> Draft:
    """Draft from a topic, with as many records of every partition."""
    from holdfast.schemas.topics import Partition
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.first_job import SAMPLE, draft

    with connected(data_dir, kafka, any_kafka=True) as door:
        count = door.present.get(topic, 0)
        if not count:
            raise CommandFailed(f"there is no topic {topic}", "`holdfast send` feeds a file to a topic", USAGE)
        each = max(1, SAMPLE // count)
        found: list[dict[str, Any]] = []
        for index in range(count):
            values = (message.value() or b"" for message in door.log.scan(Partition(topic, index)))
            found += islice(_objects(value for value in values if value), each)
    source = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
    return draft(found, name, source, {"topic": topic})


def _objects(values: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Records that are JSON objects, up to MOST_BYTES in all. Raises CommandFailed if the first record is none."""
    import json

    size = bad = good = 0
    for value in values:
        size += len(value)
        if size > MOST_BYTES or bad > _sample():
            return
        try:
            record = json.loads(value)
        except ValueError:
            record = None
        if isinstance(record, dict):
            good += 1
            yield record
            continue
        bad += 1
        if not good and bad == 3:
            raise CommandFailed(
                "the sample holds no JSON objects", "csv, parquet and arrow are read from files: --from", USAGE
            )


def _tried(draft: Draft, file: Path, sample: Path | None) -> list[str] | None:
    """Why records of the sample are dead letters, of the first ones; None: the sample is no file."""
    if sample is None:
        return None
    import logging

    from holdfast.services.client.local_run import LocalRun, complete
    from holdfast.services.diagnostics.logger import drop_below
    from holdfast.services.kernel import lazy_modules
    from holdfast.services.planning.loader import load

    lazy_modules.resolve(load=False)
    drop_below(logging.ERROR)
    taken = list(islice(_values(sample), draft.records))
    finished = LocalRun(complete(load(draft.text(), str(file))), {draft.source: iter([taken])}, []).run()
    return [letter.reason for letter in finished.dead]
