"""`holdfast try`: a job on files, in this process, without Kafka; Java is for Spark operators alone.

Source: JOBS `try`.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.services.cli.terminal import print_plain, print_rows, progress
from holdfast.services.kernel.errors import INTERRUPTED
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.visible import visible_line
from holdfast.services.view.losses import dropped_as_late, once_each, why_late

if TYPE_CHECKING:
    from holdfast.schemas.dead_letters import DeadLetter
    from holdfast.services.client.local_run import Finished

MAX_SHOWN_DEAD_LETTERS = 5


def command(
    job: Annotated[Path, typer.Argument(help="The job file, YAML or JSON, or a job in Python: my_jobs.py:flights.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="SOURCE=FILE", help="File of a source: ndjson, csv, parquet or arrow, also .gz."
        ),
    ] = None,
    out: Annotated[
        str, typer.Option(help="'-' prints rows; a folder gets <query>.ndjson files. Default: print.")
    ] = "-",
    null: Annotated[
        list[str] | None, typer.Option("--null", help="Of csv files, a word that stands for null, such as NA.")
    ] = None,
    dead_letters: Annotated[
        int, typer.Option("--dead-letters", min=0, metavar="N", help="Show so many dead letters.")
    ] = MAX_SHOWN_DEAD_LETTERS,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Run again when the job file, an input or a Python file here is saved or touched, until Ctrl-C.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Summary as one line of JSON on stderr.")] = False,
) -> None:
    """Run a job on files, in memory: no Kafka, the same results as on a cluster.

    The end of the files closes every window. Rows go to stdout (with more than one query as
    {"query": ..., "row": ...}), everything else to stderr. The exit status is 1 if every record of a source, or every
    row that came to an operator, is a dead letter.

    Example: holdfast try job.yaml --input flights=flights.ndjson.gz | head
    """
    if watch:
        _watch(job, inputs or [], out, null or [], dead_letters, as_json)
        return
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from holdfast.services.client.local_run import LocalRunFailed
    from holdfast.services.client.unusable import UnusableFile
    from holdfast.services.kernel.errors import JobRejected

    try:
        _run(job, inputs or [], out, null or [], dead_letters, as_json)
    except JobRejected as rejected:
        _refuse([str(problem) for problem in rejected.problems], 2)
    except UnusableFile as error:
        _refuse([str(error)], 2)
    except LocalRunFailed as error:
        _refuse([str(error)], 1)
    except KeyboardInterrupt:
        print_plain("stopped: a run in memory leaves nothing behind", stderr=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _watch(job: Path, given: list[str], out: str, null: list[str], shown: int, as_json: bool) -> None:
    from holdfast.services.cli import trial_again
    from holdfast.services.client.job_files import file_of
    from holdfast.services.client.pipes import refuse_pipe

    arguments = [str(job), *(word for one in given for word in ("--input", one)), "--out", out]
    arguments += [word for one in null for word in ("--null", one)] + ["--dead-letters", str(shown)]
    arguments += ["--json"] if as_json else []
    inputs = [Path(one.partition("=")[2]) for one in given]
    file = file_of(job)
    for one in (file, *inputs):
        refuse_pipe(one, "--watch reads it again")
    trial_again.watch(lambda: trial_again.files_of(file, inputs), lambda: trial_again.run_once(arguments))
    raise typer.Exit(INTERRUPTED)


def _refuse(lines: list[str], status: int) -> None:
    for line in lines:
        print_plain(f"error: {line}", stderr=True)
    raise typer.Exit(status)


def _run(job: Path, given: list[str], out: str, null: list[str], shown: int, as_json: bool) -> None:
    # Loaded modules stay: a look of the garbage collector through them would find nothing.
    gc.disable()
    from msgspec.structs import asdict

    from holdfast.schemas.leaps import widest
    from holdfast.services.cli.whereabouts import patience_with
    from holdfast.services.client.frames import file_records
    from holdfast.services.client.job_files import file_of, read_job
    from holdfast.services.client.local_run import LocalRun, complete, of_files
    from holdfast.services.client.trials import allowed_modules
    from holdfast.services.diagnostics.logger import drop_below
    from holdfast.services.hosting.plugins import from_folder
    from holdfast.services.kernel import lazy_modules
    from holdfast.services.kernel.operators.python import restrict

    lazy_modules.resolve(load=False)
    gc.freeze()
    gc.enable()
    drop_below(logging.ERROR)
    if not file_of(job).exists():
        _refuse([f"there is no file {file_of(job)}"], 2)
    if out != "-" and Path(out).exists() and not Path(out).is_dir():
        _refuse([f"--out {out} is a file (give the name of a folder)"], 2)
    written = read_job(job, patience_with).spec
    spec = of_files(complete(written))
    files = _files(given, {name: source.path for name, source in spec.sources.items()}, job.parent)
    feeds = {name: file_records(path, spec.sources[name], null) for name, path in files.items()}
    allow = allowed_modules(spec)
    from_folder(allow)
    restrict(allow)
    run = LocalRun(spec, feeds, allow, written=written)
    finished = run.run(_progress())
    _deliver(finished.rows, out)
    totals = list(finished.progress.values())
    late = dict(sum((Counter(one.late_dropped) for one in totals), Counter()))
    leap = widest(one.leap for one in totals) if any(one.late for one in totals) else None
    summary: dict[str, Any] = {
        "records": sum(one.records for one in totals),
        "rows": {query: len(rows) for query, rows in finished.rows.items()},
        "late": sum(one.late for one in totals),
        "dead_letters": len(finished.dead),
        "late_dropped": once_each(late).by_source,
        "late_by_stream": late,
        "lost": sum(one.lost for one in totals),
        "leap": None if leap is None else asdict(leap),
    }
    _print(summary, as_json, [_letter_line(letter) for letter in finished.dead], shown, why_late(leap))
    if lost := _lost_wholly(finished):
        _refuse(lost, 1)


def _letter_line(letter: DeadLetter) -> str:
    """Line with the record's place, its fault, and for an operator its row."""
    at = f"{letter.origin} offset {letter.offset}" if letter.offset >= 0 else letter.origin
    if letter.offset >= 0 and letter.of_operator:
        at += f" of {letter.topic}[{letter.partition}]"
    if letter.unnamed:
        at += f" batch {letter.batch} ({letter.unnamed})"
    return f"{at}: {letter.reason}" + (f"  {letter.row}" if letter.row else "")


def _lost_wholly(finished: Finished) -> list[str]:
    """Texts for sources of which every record is a dead letter, and for an operator whose dead letters left no row of
    the job.
    """
    at_sources: dict[str, set[tuple[int, int]]] = {}
    for letter in finished.dead:
        if not letter.of_operator:
            at_sources.setdefault(letter.origin, set()).add((letter.partition, letter.offset))
    said = [
        f"every record of {name} is a dead letter, {count:,} in all; most often: {_commonest(finished, name)}"
        for name, count in finished.fed.items()
        if count and len(at_sources.get(name, ())) >= count
    ]
    refused = Counter(letter.origin for letter in finished.dead if letter.row and letter.reason != "late")
    if refused and not any(finished.rows.values()):
        name, count = refused.most_common(1)[0]
        said.append(
            f"no row came out: {plural(count, 'dead letter')} of {name}; most often: {_commonest(finished, name)}"
        )
    return said


def _commonest(finished: Finished, origin: str) -> str:
    """An example of the reason that most dead letters have; they differ in the value that was found."""
    reasons = [letter.reason for letter in finished.dead if letter.origin == origin and letter.reason != "late"]
    kinds = Counter(reason.partition(", found ")[0] for reason in reasons)
    kind = kinds.most_common(1)[0][0]
    return next(reason for reason in reasons if reason.partition(", found ")[0] == kind)


def _files(given: list[str], declared: dict[str, str | None], folder: Path) -> dict[str, Path]:
    """The file of each source: from --input, else from `path` in the job file (relative to it)."""
    files = {name: folder / path for name, path in declared.items() if path is not None}
    given_before: set[str] = set()
    for one in given:
        name, equals, path = one.partition("=")
        if name in given_before:
            _refuse([f"--input {one}: the source '{name}' has a file already (put the records into one file)"], 2)
        given_before.add(name)
        if not equals:
            _refuse([f"--input {one}: write SOURCE=FILE"], 2)
        if name not in declared:
            _refuse([f"--input {one}: the job has no source '{name}' (sources: {', '.join(declared)})"], 2)
        files[name] = Path(path)
    missing = [name for name in declared if name not in files]
    if missing:
        _refuse([f"source '{name}' has no file: --input {name}=FILE" for name in missing], 2)
    return files


def _progress() -> Callable[[int], None]:
    """A counter on stderr if it is a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None

    def show(count: int) -> None:
        progress(f"{plural(count, 'record')} ")

    return show


def _deliver(rows: dict[str, list[bytes]], out: str) -> None:
    """Writes the rows to a folder, or to stdout. Raises CommandFailed if a folder cannot be written."""
    from holdfast.services.node.machine.folders import using

    if out != "-":
        folder = Path(out)
        with using(folder, "give a folder that can be written: --out"):
            folder.mkdir(parents=True, exist_ok=True)
            for query, some in rows.items():
                _write_whole(folder / f"{query}.ndjson", b"".join(row + b"\n" for row in some))
        return
    for query, some in rows.items():
        prefix, suffix = (b"", b"") if len(rows) == 1 else (f'{{"query":"{query}","row":'.encode(), b"}")
        print_rows(prefix + row + suffix for row in some)


def _write_whole(path: Path, content: bytes) -> None:
    """Replaces a file in one step: the former file stays until the new one is complete."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _print(
    summary: dict[str, Any], as_json: bool, dead: list[str], shown: int = MAX_SHOWN_DEAD_LETTERS, why: str = ""
) -> None:
    if as_json:
        print_plain(json.dumps(summary), stderr=True)
        return
    rows = ", ".join(f"{query} {count:,}" for query, count in dict(summary["rows"]).items())
    if sys.stderr.isatty():
        progress("")
    print_plain(f"{plural(summary['records'], 'record')} in; rows out: {rows}", stderr=True)
    if summary["late_by_stream"]:
        dropped = dropped_as_late(dict(summary["late_by_stream"]))
        print_plain(f"{dropped}: {why or 'allowed_lateness_s is too short for them'}", stderr=True)
    elif why:
        print_plain(f"late records are dead letters: {why}", stderr=True)
    for line in dead[:shown]:
        print_plain(visible_line(f"dead letter: {line}"), stderr=True)
    if len(dead) > shown:
        more = plural(len(dead) - shown, "more dead letter" if shown else "dead letter")
        print_plain(f"... and {more}: --dead-letters N shows N of them", stderr=True)
