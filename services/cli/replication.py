"""The command plan: which units a replication budget gives a replica, and what results are left without the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.services.cli.options import DataDir, Json, KafkaAt
from holdfast.services.cli.terminal import print_json, print_plain, print_table, say
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural

if TYPE_CHECKING:
    from holdfast.schemas.plans import Plan
    from holdfast.services.kernel.fidelity.of_job import Rates
    from holdfast.services.planning.replication import Prediction

_WIDE, _HIGH = 60, 8
"""Size of the chart, in characters."""
_LISTED = 12
"""Units of an operator that are named; further ones are counted."""


def plan(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job file, or the name of a job that runs.")],
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            min=0,
            max=1,
            help="Share of the units that may have a replica. [default: the job's]",
            show_default=False,
        ),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(
            "--rates",
            metavar="FILE",
            help="Records per second of each operator, or task. [default: even]",
            show_default=False,
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Take the rates that the running job has measured.")] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Say which units a replication budget would give a replica, and what results would be left without the others."""
    from holdfast.services.kernel.fidelity.of_job import budget_share
    from holdfast.services.planning.replication import predict

    if rates is not None and live:
        raise CommandFailed("--rates and --live both say what the rates are", "leave one out", USAGE)
    made, measured = _plan(job, live, data_dir, kafka)
    share = budget_share(made) if budget is None else budget
    if share is None:
        raise CommandFailed(f"job {made.job} has no fault_tolerance.replication_budget", "give one by --budget", USAGE)
    found = predict(_budgeted(made), share, _given(rates, made) if rates is not None else measured)
    if as_json:
        print_json({"job": made.job, **found.as_plain()})
        return
    _draw(made, found)


def _plan(job: str, live: bool, data_dir: Path | None, kafka: str | None) -> tuple[Plan, Rates | None]:
    from holdfast.services.cli.whereabouts import allowed, connected, patience_with
    from holdfast.services.client.job_files import in_python, read_job
    from holdfast.services.client.planned_job import plan as made_of
    from holdfast.services.kernel.errors import JobRejected

    path = Path(job)
    written = path.suffix in (".yaml", ".yml", ".json") or in_python(path) or path.is_file()
    file = read_job(path, lambda: patience_with(data_dir, kafka)) if written else None
    if file is not None and not live:
        try:
            return made_of(file.spec, None, "check", allowed(file.spec, data_dir)), None
        except JobRejected as rejected:
            first = rejected.problems[0]
            raise CommandFailed(f"{job}: {first}", f"`holdfast check {job}` shows every problem", USAGE) from None
    from holdfast.services.view.reader import named_job, read_all

    with connected(data_dir, kafka) as door:
        view = read_all(door)
        found = view.plan(named_job(view, job if file is None else file.spec.name).generation)
        if found is None:
            raise CommandFailed(f"job {job} has no units: it was not admitted", f"`holdfast status {job}` says why")
        return found, view.rates(found) if live else None


def _budgeted(made: Plan) -> Plan:
    """The plan as if the job had a budget: then every unit on workers with the default scheme is planned."""
    from msgspec.structs import replace

    if any(unit.planned for unit in made.units):
        return made
    own = made.settings.fault_tolerance.units
    free = [
        not unit.host and not {unit.name, *unit.operators} & own.keys() and unit.scheme != "adaptive"
        for unit in made.units
    ]
    if not any(free):
        raise CommandFailed(
            f"no unit of job {made.job} is left for a budget",
            "every unit has a scheme of its own, is adaptive, or runs on Spark",
            USAGE,
        )
    units = (replace(unit, planned=yes) for unit, yes in zip(made.units, free, strict=True))
    return replace(made, units=tuple(units))


def _given(path: Path, made: Plan) -> Rates:
    """Rates from a file: a mapping by operator, with one number, or one for each task."""
    import yaml

    from holdfast.services.kernel.fidelity.of_job import Rates

    try:
        read: Any = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandFailed(f"cannot read {path}: {error}", "give a YAML or JSON file", USAGE) from None
    tasks = {operator.name: operator.parallelism for operator in made.operators}
    outputs: dict[str, tuple[float, ...]] = {}
    example = f"such as {next(iter(tasks))}: 100"
    if not isinstance(read, dict):
        raise CommandFailed(f"{path} holds no rates by operator", example, USAGE)
    for name, value in read.items():
        if name not in tasks:
            raise CommandFailed(f"{path}: there is no operator '{name}'", f"one of {', '.join(tasks)}", USAGE)
        values = value if isinstance(value, list) else [value / tasks[name]] * tasks[name] if _is_rate(value) else []
        if len(values) != tasks[name] or not all(map(_is_rate, values)):
            wanted = f"a number, or {tasks[name]} of them, one for each task, each 0 or more"
            raise CommandFailed(f"{path}: {name} is {value!r}", f"give {wanted}", USAGE)
        outputs[name] = tuple(map(float, values))
    return Rates(outputs)


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _draw(made: Plan, found: Prediction) -> None:
    from holdfast.services.planning.replication import smallest_share

    chosen, following = set(found.units), set(found.following)
    rows = []
    by_group: dict[tuple[str, ...], list[str]] = {}
    for unit in made.units:
        by_group.setdefault(unit.operators, []).append(unit.name)
    for operators, units in by_group.items():
        inputs = {e.producer for e in made.edges if e.consumer in operators} - set(operators)
        mine = [name for name in units if name in chosen]
        listed = ", ".join(mine[:_LISTED]) + (f" and {len(mine) - _LISTED} more" if len(mine) > _LISTED else "")
        reads, count = ", ".join(sorted(inputs)) or "-", f"{len(mine)} of {len(units)}"
        rows.append((" > ".join(operators), reads, count, listed or "-"))
    print_table(("operators of the unit", "reads", "replicas", "units with a replica"), rows, title="Plan")
    fidelities = [
        *((query, f"{value:.3f}") for query, value in found.queries.items()),
        ("job", f"{found.fidelity:.3f}"),
    ]
    print_table(("query", "fidelity"), fidelities, title="Predicted, with every other unit gone")
    best = "too many plans to look at" if found.best is None else f"{found.best:.3f}"
    print_table(
        ("planner", "fidelity"),
        [("structure-aware", f"{found.fidelity:.3f}"), ("greedy", f"{found.greedy:.3f}"), ("exact", best)],
    )
    print_plain(chart(found.curve, found.budget))
    if following:
        say(f"next: {', '.join(found.following)} would raise it to {found.following_fidelity:.3f}")
    if found.left_out:
        say(f"{plural(len(found.left_out), 'unit')} left out: a scheme of their own, adaptive, or on Spark")
    for query, needed in found.least.items():
        if needed is None:
            say(f"query {query} keeps nothing under any plan: a unit that it needs is left out and has no replica")
        elif needed > found.budget:
            share = smallest_share(needed, found.planned)
            say(f"query {query} keeps nothing: it needs {plural(needed, 'unit')}, a budget of {share:g} or more")
    allowed = f"the budget of {found.share:g} allows {found.budget}"
    say(f"a replica for {len(found.units)} of {plural(found.planned, 'unit')}, {allowed}")


def chart(curve: tuple[tuple[int, float], ...], budget: int) -> str:
    """Fidelity over budget, as text of at most 70 columns; the column of the budget is marked below."""
    last = max(curve[-1][0], 1)
    columns = min(_WIDE, last + 1)
    at = [round(column * last / max(columns - 1, 1)) for column in range(columns)]
    values = dict(curve)
    lines = []
    for row in range(_HIGH, 0, -1):
        marks = "".join("█" if values[one] >= (row - 0.5) / _HIGH else " " for one in at)
        lines.append(f"{row / _HIGH:5.2f} ┤{marks}".rstrip())
    mark = min(range(columns), key=lambda column: abs(at[column] - budget))
    lines.append("      └" + "─" * columns)
    lines.append(" " * (7 + mark) + f"▲ {budget} of {plural(last, 'unit')}")
    return "fidelity over budget\n" + "\n".join(lines) + "\n"
