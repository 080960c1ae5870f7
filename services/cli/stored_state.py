"""The command `state`: prints the state of an operator."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, print_table


def state(
    job: JobName,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Name of an operator that keeps state.")],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key, as text or JSON; of several parts: '[\"UA\", 7]'.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="P", help="Only keys that begin so, text or JSON: '[\"UA\"]'."),
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Only this table of the operator.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="End after so many entries.")] = 100,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show the state of an operator, as of the newest checkpoint of each task: totals, windows, rows that wait.

    It is read from Kafka, so no worker is slowed. What came after the checkpoint, half a second by default, is not in
    it.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.stored_state import Asked, read_state
    from holdfast.services.kernel.errors import CommandFailed
    from holdfast.services.view.reader import named_job, read_jobs

    with connected(data_dir, kafka) as door:
        view = read_jobs(door)
        plan = view.plan(named_job(view, job).generation)
        if plan is None:
            raise CommandFailed(f"job {job} has no state: it was not admitted", f"`holdfast status {job}` says why")
        found, more = read_state(door, plan, operator, Asked(key, prefix, table), limit)
    for one in found if as_json else ():
        print_json(one)
    if not as_json:
        rows = [(one.task, one.batch, one.table, _text(one.key), _text(one.value)) for one in found]
        print_table(("task", "batch", "table", "key", "value"), rows, empty="no checkpoint holds such an entry")
    if more:
        note("there are more entries: --limit shows them")


def _text(value: object) -> str:
    import msgspec

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
