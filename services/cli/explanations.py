"""Commands about how a job's units are protected: explain, drill."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import print_json, print_table, say, waiting
from holdfast.services.kernel.errors import FAILED, USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural

if TYPE_CHECKING:
    from holdfast.schemas.events import Alternative, Event
    from holdfast.schemas.plans import Plan
    from holdfast.services.client.drill import Drilled
    from holdfast.services.view.cluster import ClusterView
    from holdfast.services.view.explanations import Explanation
    from holdfast.services.view.incidents import IncidentLine

PHASES = ("detection", "deploy", "read", "wire", "replay", "opening")
_COLUMNS = ("scheme", "takes ms", *PHASES, "cost", "why not")


def explain(
    job: JobName,
    unit: Annotated[
        str | None, typer.Argument(help="A unit, such as count-0; default: all.", show_default=False)
    ] = None,
    incident: Annotated[
        bool, typer.Option("--incident", help="The plan after a correlated failure, and what waits for what.")
    ] = False,
    replicas: Annotated[
        bool,
        typer.Option("--replicas", help="Only which units have a replica by the job's replication budget, and why."),
    ] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Say why units have their scheme, what each would take and cost, and what would have to change.

    With --incident: how the last correlated failure is recovered from.
    """
    from holdfast.schemas.assignments import unit_key
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.explanations import explain as explained
    from holdfast.services.view.reader import named_job, read_all, read_beats, read_events

    with connected(data_dir, kafka) as door:
        view = read_all(door)
        plan = view.plan(named_job(view, job).generation)
        if plan is None:
            raise CommandFailed(f"job {job} has no units: it was not admitted", f"`holdfast status {job}` says why")
        if incident:
            _explain_incident(view, plan, list(read_events(door)), as_json)
            return
        if _explain_replicas(view, plan, as_json, alone=replicas):
            return
        names = [one.name for one in plan.units]
        if unit is not None and unit not in names:
            raise CommandFailed(f"job {job} has no unit '{unit}': one of {', '.join(names)}", code=USAGE)
        wanted = {
            name: view.change(unit_key(plan.job, plan.generation, name)) for name in names if unit in (None, name)
        }
        found = explained(plan, wanted, read_beats(door, int(time.time() * 1000)), read_events(door))
    if as_json:
        print_json(found)
        return
    if not found:
        say("no such unit has copies on workers: what Spark does is not estimated")
    for one in found:
        _draw(one)


def _explain_replicas(view: ClusterView, plan: Plan, as_json: bool, *, alone: bool) -> bool:
    """Explains the units with a replica; true if nothing else was requested."""
    from holdfast.services.view.replicas import replicas

    if as_json and not alone:
        return False
    schemes = {line.unit: line.scheme for line in view.units(plan)}
    found = replicas(plan, view.replication(plan), schemes, view.rates(plan))
    if as_json:
        print_json(found)
        return True
    if found is None:
        if alone:
            say(f"job {plan.job} has no replication budget")
        return alone
    rows = [(one.unit, "yes" if one.planned else "no", one.scheme, f"{one.lost:.3f}") for one in found.units]
    planned = plural(sum(one.planned for one in found.units), "unit")
    title = f"Replication plan {found.number}: {planned} of {found.budget} allowed"
    print_table(("unit", "replica", "scheme", "fidelity that it decides"), rows, title=title)
    queries = ", ".join(f"query {query} {value:.3f}" for query, value in found.queries.items())
    say(f"with every unplanned unit gone the job keeps {found.fidelity:.3f} of its output: {queries}")
    if found.following:
        say(f"next: {', '.join(found.following)} would raise it to {found.following_fidelity:.3f}")
    if found.left_out:
        say(f"{plural(found.left_out, 'unit')} left out: a scheme of their own, adaptive, or on Spark")
    return alone


def _explain_incident(view: ClusterView, plan: Plan, events: Sequence[Event], as_json: bool) -> None:
    from holdfast.services.view.incidents import climbed, incident_line

    last = view.incident(plan)
    retention = view.retention(plan)
    line = None if last is None else incident_line(plan, last, view.units(plan), retention, climbed(plan, events))
    if as_json:
        print_json(line)
    elif line is None:
        say(f"job {plan.job} has had no incident")
    else:
        _draw_incident(line)
    for risk in () if as_json else retention:
        say(f"retention: {risk}")


def _draw_incident(line: IncidentLine) -> None:
    say(f"incident of {line.job}, record {line.number}: {line.state}; {', '.join(line.workers)} failed")
    if line.stairs is not None:
        steps = ", ".join(f"{one.available} after {one.after_ms / 1000:.1f} s" for one in line.stairs.steps)
        say(f"  available queries of {line.stairs.queries}: {steps}")
    if line.state == "over":
        return
    how = "all at once" if line.blocking else "as slots are free"
    begins = "at the newest global checkpoint" if line.line else "at its own newest checkpoint"
    say(f"  {plural(len(line.units), 'unit')} to restore, {how}, each {begins}")
    if line.above:
        say(f"  what sends to them goes back before them: {' '.join(line.above)}")
    slots = "slots are no limit any more" if line.beyond else plural(line.slots, "free slot")
    say(f"  {slots}; restored in this order: {' '.join(line.order) or 'nothing fits'}")
    rows = [
        (one.query, one.state, one.priority, "" if one.density is None else f"{one.density:.4g}",
         " ".join(one.restored), " ".join(one.waiting))
        for one in line.queries
    ]  # fmt: skip
    print_table(("query", "state", "priority", "density", "is restored", "waits for a slot"), rows)


def drill(
    job: JobName,
    unit: Annotated[str, typer.Argument(help="A unit, such as count-0; `holdfast units JOB` lists them.")],
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")] = 60.0,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Make a takeover of a unit that is protected, and compare what it takes with what was predicted and promised.

    Whoever would take over if its worker failed does so now; no row is lost or doubled. Nothing fails, so detection
    counts as estimated. Exits with 1 if the promise was not kept.
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.client.drill import drill_unit
    from holdfast.services.view.reader import read_jobs, running_unit

    with connected(data_dir, kafka) as door, waiting(f"drill of {unit} ...", quiet=as_json):
        line = running_unit(read_jobs(door), job, unit)
        done = drill_unit(door, line, unit, timeout)
    if as_json:
        print_json(
            {"job": line.job, "generation": line.generation, "unit": unit, "worker": done.worker, "scheme": done.scheme,
             "promise_ms": done.promise_ms or None, "predicted_ms": done.predicted, "actual_ms": done.actual,
             "kept": done.kept}
        )  # fmt: skip
    else:
        _draw_drill(unit, done)
    if not done.kept:
        raise typer.Exit(FAILED)


def _draw_drill(unit: str, done: Drilled) -> None:
    say(f"{unit} runs on {done.worker} now, under {done.scheme}")
    if not done.actual:
        say("nothing was predicted: its former leader had not reported what it costs")
        return
    rows = [(phase, _ms(done.predicted.get(phase)), _ms(ms)) for phase, ms in done.actual.items()]
    print_table(("phase", "predicted ms", "actual ms"), rows)
    if done.promise_ms:
        kept = "kept" if done.kept else "NOT kept"
        say(f"promise: {done.promise_ms:.0f} ms, {kept}")


def _draw(one: Explanation) -> None:
    say("\n".join(_words(one)))
    rows = [_row(each) for each in one.alternatives]
    print_table(_COLUMNS, rows, empty="its leader has not reported lately what it costs: nothing is known yet")
    for each in one.changes:
        say(f"  before it gets {each}")


def _words(one: Explanation) -> Iterator[str]:
    how = "adaptive, now" if one.adaptive else "the job or a command has set it:"
    yield f"{one.unit}: {how} {one.scheme}; promise {one.promise_ms:.0f} ms, {one.precision}{_weights(one.weights)}"
    if one.decision:
        at = datetime.fromtimestamp(one.decided_ms / 1000).strftime("%H:%M:%S")
        yield f"  chosen at {at}: {one.decision}"
    if one.chosen:
        yield f"  {one.chosen} suits the promise better now" + ("" if one.adaptive else ", if the unit were adaptive")


def _weights(weights: dict[str, float]) -> str:
    named = ", ".join(f"{kind} {weight:g}" for kind, weight in weights.items())
    return f", weights {named}" if named else ""


def _row(one: Alternative) -> Sequence[object]:
    phases = [_ms(one.phases_ms[name]) if name in one.phases_ms else "" for name in PHASES]
    return (one.scheme, _ms(one.takes_ms), *phases, f"{one.cost:.2f}", one.rejected)


def _ms(ms: float | None) -> str:
    return "?" if ms is None else f"{ms:,.0f}"
