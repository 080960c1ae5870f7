"""The command `state`: what an operator remembers."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import note, print_json, print_table

if TYPE_CHECKING:
    from holdfast.services.kernel.operators.user_state import Key


def state(
    job: JobName,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Name of a Python operator.")],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key, as text or JSON; of several parts: '[\"UA\", 7]'.")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Only this table of the operator.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="End after so many entries.")] = 100,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show the tables of a Python operator, as of the newest checkpoint of each task.

    They are read from Kafka, so no worker is slowed. What came after the checkpoint, half a second by default, is not
    in them.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.stored_state import entries
    from holdfast.services.kernel.errors import CommandFailed
    from holdfast.services.view.reading import named_job, read_jobs

    with connected(data_dir, kafka) as door:
        view = read_jobs(door)
        plan = view.plan(named_job(view, job).generation)
        if plan is None:
            raise CommandFailed(f"job {job} has no state: it was not admitted", f"`holdfast status {job}` says why")
        some = entries(door, plan, operator, None if key is None else _keys(key), table)
        found = list(islice(some, limit + 1))
    for one in found[:limit] if as_json else ():
        print_json(one)
    if not as_json:
        rows = [(one.task, one.batch, one.table, _text(one.key), _text(one.value)) for one in found[:limit]]
        print_table(("task", "batch", "table", "key", "value"), rows, empty="no checkpoint holds such an entry")
    if len(found) > limit:
        note("there are more entries: --limit shows them")


def _keys(text: str) -> list[Key]:
    """The key as text, and as the JSON that it may be."""
    import msgspec

    try:
        parsed = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return [text]
    if isinstance(parsed, list):
        return [tuple(parsed)]
    return [text] if isinstance(parsed, dict) else [parsed, text] if parsed != text else [text]


def _text(value: object) -> str:
    import msgspec

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
