"""The command `send`: writes the records of a file to a topic, as fast as Kafka takes them or at a given rate."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import CreateTopics, DataDir, Json, KafkaAt, Partitions
from holdfast.services.cli.terminal import note, print_json, say
from holdfast.services.kernel.errors import INTERRUPTED, USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural

if TYPE_CHECKING:
    from holdfast.schemas.jobs import JobSpec
    from holdfast.services.client.feed import Feed
    from holdfast.services.client.writer import Writer
    from holdfast.services.kernel.codecs.csv_form import CsvForm
    from holdfast.services.log.patience import Patience
    from holdfast.services.view.door import Door

STOP_S = 5.0
"""Seconds after Ctrl-C for records on their way."""


def send(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="ndjson, csv, txt, log, parquet or arrow, each also .gz.")
    ],
    rate: Annotated[float | None, typer.Option("--rate", min=0.001, help="Records per second.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="FIELD", help="Field that chooses the partition, as the key.")
    ] = None,
    strings: Annotated[bool, typer.Option("--strings", help="Of a csv file, every value as text.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Of a csv file, its lines, for sources of format csv.")] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME", help="With --raw or --no-header: a column, in order."),
    ] = None,
    arrow: Annotated[
        bool, typer.Option("--arrow", help="Of parquet or arrow, records of many rows, for sources of format arrow.")
    ] = False,
    null: Annotated[
        list[str] | None, typer.Option("--null", help="Of a csv file, a word that stands for null, such as NA.")
    ] = None,
    delimiter: Annotated[str, typer.Option("--delimiter", metavar="SIGN", help="Of a csv file, between fields.")] = ",",
    quote: Annotated[str, typer.Option("--quote", metavar="SIGN", help="Of a csv file, around fields.")] = '"',
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Of a csv file, whether its first line names the columns.")
    ] = True,
    create_topics: CreateTopics = False,
    partitions: Partitions = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job", metavar="FILE|JOB", help="With --create-topics: the topic is compacted if it is a table there."
        ),
    ] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Write a file's records to a topic; record i goes to partition i modulo their number, unless it has a key."""
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.feed import Feed
    from holdfast.services.client.writer import Writer

    if arrow and key is not None:
        raise CommandFailed("--arrow goes without --key", "a record holds many rows", USAGE)
    if columns and header and not raw:
        raise CommandFailed(
            "--column goes with --raw or --no-header", "else each record has the columns of the file", USAGE
        )
    if job is not None and not create_topics:
        raise CommandFailed("--job goes with --create-topics", "a topic that is there keeps its settings", USAGE)
    form = _form(file, delimiter, quote, header)
    if not header and not raw and not columns:
        raise CommandFailed("--no-header goes with --column or --raw", "--column names each column, in order", USAGE)
    feed = Feed(
        file,
        raw=raw,
        columns=columns or (),
        arrow=arrow,
        strings=strings,
        null=null or (),
        form=form,
        header=header,
    )
    with connected(data_dir, kafka, any_kafka=True) as door:
        count = _partitions(door, topic, file, create_topics, partitions, job)
        appender = door.log.appender("send")
        try:
            writer = Writer(appender, topic, count, key)
            _run(feed, writer, rate, topic, as_json, door.patience)
        finally:
            appender.close()


def _form(file: Path, delimiter: str, quote: str, header: bool) -> CsvForm:
    from pydantic import ValidationError

    from holdfast.schemas.jobs import CsvOptions
    from holdfast.services.client.feed import format_of
    from holdfast.services.kernel.codecs.csv_form import PLAIN, CsvForm
    from holdfast.services.planning.loader import part_problems

    delimiter = "\t" if delimiter == "\\t" else delimiter
    form = CsvForm(delimiter, quote)
    if (form != PLAIN or not header) and format_of(file, "csv")[0] != "csv":
        raise CommandFailed("--delimiter, --quote and --no-header go with a csv file", f"{file} is none", USAGE)
    try:
        CsvOptions(delimiter=delimiter, quote=quote)
    except ValidationError as error:
        (first, *_) = part_problems(CsvOptions, "csv", error)
        raise CommandFailed(f"--{first.path.removeprefix('csv.')}: {first.message}", first.hint, USAGE) from None
    return form


def _partitions(door: Door, topic: str, file: Path, create: bool, wanted: int | None, job: str | None) -> int:
    from holdfast.schemas.topics import TopicSpec
    from holdfast.services.kernel.suggestions import did_you_mean

    if topic.startswith(f"{door.topics.prefix}."):
        raise CommandFailed(f"topic {topic} belongs to the cluster", "choose another name", USAGE)
    if topic not in door.present:
        if not create:
            near = did_you_mean(topic, (one for one in door.present if not one.startswith(f"{door.topics.prefix}.")))
            command = f"`holdfast send {topic} {file} --create-topics` creates it"
            raise CommandFailed(f"there is no topic '{topic}'", f"{near} {command}".strip(), USAGE)
        from holdfast.services.client.planned_job import topic_config

        config = {} if job is None else topic_config(topic, _spec_of(door, job))
        door.log.create([TopicSpec(topic, wanted or 1, config)])
        return wanted or 1
    return door.present[topic]


def _spec_of(door: Door, job: str) -> JobSpec:
    """The job in a file, or of the cluster."""
    from holdfast.services.client.job_files import in_python, read_job
    from holdfast.services.planning.loader import interpret
    from holdfast.services.view.reader import named_job, read_jobs

    if Path(job).is_file() or in_python(Path(job)):
        return read_job(Path(job)).spec
    view = read_jobs(door)
    plan = view.plan(named_job(view, job).generation)
    if plan is None:
        raise CommandFailed(f"job {job} was not admitted", f"`holdfast status {job}` says why", USAGE)
    return interpret(plan.spec)


def _run(feed: Feed, writer: Writer, rate: float | None, topic: str, as_json: bool, patience: Patience) -> None:
    from holdfast.services.client.writer import paced, wait_for_answers

    started = time.monotonic()
    with _until_interrupted() as interrupted, _progress(feed, writer, quiet=as_json) as show:
        blocks: Iterable[list[bytes]] = interrupted.reading(feed.blocks())
        if rate is not None:
            blocks = paced(blocks, rate, clock=time.monotonic, sleep=time.sleep, stopped=interrupted)
        for block in blocks:
            if writer.full:
                wait_for_answers(writer, lambda: not writer.full, patience, interrupted, show)
            writer.write(block)
            show()
            if interrupted():
                break
        deadline = time.monotonic() + STOP_S
        wait_for_answers(
            writer,
            lambda: writer.acknowledged == writer.written,
            patience,
            lambda: interrupted() and time.monotonic() > deadline,
            show,
        )
    _report(writer, time.monotonic() - started, topic, interrupted(), feed.blank, as_json)


def _report(writer: Writer, seconds: float, topic: str, interrupted: bool, blank: int, as_json: bool) -> None:
    per_s = writer.acknowledged / max(seconds, 1e-9)
    if as_json:
        found = {"topic": topic, "records": writer.acknowledged, "seconds": round(seconds, 3)}
        print_json({**found, "rate_per_s": round(per_s, 1), "interrupted": interrupted, "blank_lines": blank})
    else:
        say(f"{plural(writer.acknowledged, 'record')} in {topic}, {seconds:.1f} s, {per_s:,.0f} records/s")
    if blank and not as_json:
        note(f"{plural(blank, 'blank line')} skipped")
    if interrupted:
        if not as_json:
            sent = plural(writer.acknowledged, "record")
            note(f"stopped: the first {'record is' if writer.acknowledged == 1 else f'{sent} are'} there to stay")
        raise typer.Exit(INTERRUPTED)


class _Interrupts:
    """Ctrl-C and SIGTERM: the first one ends the work in order, the second one at once. Calls are true from the first
    one on.
    """

    def __init__(self) -> None:
        self._seen = self._reading = False

    def __call__(self) -> bool:
        return self._seen

    def happened(self, _number: int, _frame: object) -> None:
        """Handles a signal."""
        if self._seen:
            raise KeyboardInterrupt
        self._seen = True
        if self._reading:  # a pipe may give nothing for hours
            raise KeyboardInterrupt

    def reading(self, blocks: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        """The blocks up to the first interrupt, which also ends a read that waits."""
        while not self._seen:
            try:
                self._reading = True
                block = next(blocks, None)
                self._reading = False
            except KeyboardInterrupt:
                self._reading = False
                return
            if block is None:
                return
            yield block


@contextmanager
def _until_interrupted() -> Iterator[_Interrupts]:
    interrupts = _Interrupts()
    former = {number: signal.signal(number, interrupts.happened) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def _progress(feed: Feed, writer: Writer, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar with share, count and rate, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from holdfast.services.cli.terminal import console

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
    started, last = time.monotonic(), 0.0
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("send", total=1.0, shown="")

        def show() -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= 0.1:
                last = now
                rate = writer.acknowledged / (now - started)
                progress.update(
                    task, completed=feed.share, shown=f"{plural(writer.acknowledged, 'record')}, {rate:,.0f} records/s"
                )

        yield show
