"""Describes a plan for people, as data: the content of `holdfast check`.

Source: JOBS "holdfast check". The command line draws the sections; `--json` prints `summary`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from holdfast.schemas.job_operators import OperatorSpec, Sql
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, SourcePlan, SparkInput, SparkPlan
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.fidelity.of_job import budget_share
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plans.layout import all_data_topics, commit_logs, task_name
from holdfast.services.planning import replication
from holdfast.services.planning.sql.names import MOST_LETTERS

ISOLATION_COSTS = "180 MB and a second of CPU at its start for each process, half a millisecond to one a batch"
"""Costs of isolation, as `./scripts/bench isolation` measures them."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table.

    Attributes:
        title: the title of the table.
        columns: the headings.
        rows: the cells of each row, as many as headings.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary(plan: Plan, topics: JobTopics) -> dict[str, Any]:
    """The plan as plain data: operators, units, topics, interval and warnings."""
    return {
        "job": plan.job,
        "operators": [_operator(plan, operator) for operator in plan.operators],
        "units": [
            {
                "unit": unit.name,
                "tasks": [task_name(operator, unit.index) for operator in unit.operators],
                "scheme": unit.scheme,
                "delivers": unit.delivers,
            }
            for unit in plan.units
        ],
        "topics": [
            *({"topic": one.topic, "partitions": len(one.first), "use": "source"} for one in user_sources(plan)),
            *({"topic": name, "partitions": n, "use": "sink"} for name, n in plan.sink_partitions.items()),
            *(
                {"topic": one.name, "partitions": one.partitions, "use": "internal"}
                for one in topics.specs(len(plan.units), all_data_topics(plan, topics))
            ),
        ],
        "spark": [
            {
                "operator": one.operator,
                "reads": ", ".join(given.topic for given in one.inputs),
                "mode": one.mode,
                "reason": one.reason,
                "drain": _drain(one),
            }
            for one in plan.spark
        ],
        "isolated": [
            {"operator": one.name, "processes": one.parallelism, "costs": ISOLATION_COSTS}
            for one in plan.operators
            if _isolated(one)
        ],
        "replication": _replication(plan),
        "interval_ms": plan.interval_ms,
        "warnings": list(plan.warnings),
    }


def _isolated(operator: OperatorPlan) -> bool:
    kind = catalogue.OPERATORS.get(operator.kind)
    return kind is not None and kind.isolated(operator.settings)


def _replication(plan: Plan) -> dict[str, Any] | None:
    """The predicted effect of the job's replication budget, with even rates; None if the job has no budget."""
    share = budget_share(plan)
    return None if share is None else replication.predict(plan, share).as_plain()


def _predicted(found: dict[str, Any]) -> Section:
    rows = [(f"query {query}", f"{value:.3f}") for query, value in found["queries"].items()]
    replicas = f"{len(found['units'])} of {found['planned']}: {', '.join(found['units'])}"
    return Section(
        "Replication, with every other unit gone",
        ("", "fidelity"),
        (*rows, ("job", f"{found['fidelity']:.3f}"), ("units with a replica", replicas)),
    )


def _drain(spark: SparkPlan) -> str:
    """The effect of a drain on rows that Spark holds, as text."""
    if not spark.holds:
        return "nothing waits in Spark"
    return "closes what waits in Spark" if spark.closes else "leaves what waits in Spark unsaid: it has no watermark"


def user_sources(plan: Plan) -> list[SourcePlan | SparkInput]:
    """The sources and Spark inputs that read a topic of the user."""
    logs = commit_logs(plan)
    of_spark = [given for one in plan.spark for given in one.inputs if not given.writers]
    return [one for one in plan.sources if one.topic not in logs] + of_spark


def _operator(plan: Plan, operator: OperatorPlan) -> dict[str, Any]:
    return {
        "operator": operator.name,
        "kind": operator.kind,
        "parallelism": operator.parallelism,
        "inputs": [_input(edge) for edge in plan.edges if edge.consumer == operator.name],
        "fields": {name: kind for name, kind in operator.fields.items() if name != DELETED},
        "row_key": list(operator.row_key),
    }


def _input(edge: Edge) -> dict[str, Any]:
    return {"from": edge.producer, "routing": edge.routing, "key": list(edge.key), "topic": edge.topic}


def sections(plan: Plan, topics: JobTopics) -> list[Section]:
    """The content of `summary`, as tables."""
    data = summary(plan, topics)
    return [
        Section(
            "Operators",
            ("operator", "kind", "tasks", "inputs", "columns"),
            tuple(
                (
                    one["operator"],
                    one["kind"],
                    str(one["parallelism"]),
                    ", ".join(map(_input_text, one["inputs"])),
                    ", ".join(f"{name}: {kind}" for name, kind in one["fields"].items()),
                )
                for one in data["operators"]
            ),
        ),
        Section(
            "Units",
            ("unit", "tasks", "scheme"),
            tuple((one["unit"], ", ".join(one["tasks"]), one["scheme"]) for one in data["units"]),
        ),
        Section(
            "Topics",
            ("topic", "partitions", "use"),
            tuple((one["topic"], str(one["partitions"]), one["use"]) for one in data["topics"]),
        ),
        *(
            [
                Section(
                    "Spark",
                    ("operator", "reads", "mode", "because", "drain"),
                    tuple(
                        (one["operator"], one["reads"], one["mode"], one["reason"], one["drain"])
                        for one in data["spark"]
                    ),
                )
            ]
            if plan.spark
            else []
        ),
        *(
            [
                Section(
                    "Isolated code",
                    ("operator", "processes of each copy", "costs"),
                    tuple((one["operator"], str(one["processes"]), one["costs"]) for one in data["isolated"]),
                )
            ]
            if data["isolated"]
            else []
        ),
        *([_predicted(data["replication"])] if data["replication"] else []),
        Section("Settings", ("setting", "value"), (("batch interval", f"{plan.interval_ms} ms"),)),
        Section("Warnings", ("warning",), tuple((text,) for text in plan.warnings)),
    ]


def became(spec: JobSpec, plan: Plan) -> dict[str, dict[str, Any]]:
    """The operators that replace each query in SQL, with their settings as in a job file. `spec` is the job as the user
    wrote it."""
    queries = [name for name, one in spec.operators.items() if isinstance(one, Sql)]
    if not queries:
        return {}
    planned = JobSpec.model_validate(plan.spec).operators
    own = {name: one for name, one in planned.items() if name not in spec.operators or name in queries}
    return {
        query: {name: _as_file(one) for name, one in own.items() if name == query or _made_of(name, query, queries)}
        for query in queries
    }


def _made_of(name: str, query: str, queries: Sequence[str]) -> bool:
    """True if the operator was made for this query, and not for a query with a longer name."""
    begun = [one for one in queries if name.startswith(f"{one[:MOST_LETTERS]}-")]
    return bool(begun) and max(begun, key=len) == query


def _as_file(operator: OperatorSpec) -> dict[str, Any]:
    """The settings of an operator without defaults. A setting is also left out if its default depends on another
    setting."""
    written = operator.model_dump(mode="json", exclude_defaults=True)
    found = {operator.kind: written.pop(operator.kind), **written}
    for section in (found, *(one for one in found.values() if isinstance(one, dict))):
        for key in [one for one in section if one not in (operator.kind, "input")]:
            value = section.pop(key)
            if not _is_same(found, operator):
                section[key] = value
    return found


def _is_same(written: dict[str, Any], operator: OperatorSpec) -> bool:
    try:
        return type(operator).model_validate(written) == operator
    except ValidationError:
        return False


def written_out(became: Mapping[str, Mapping[str, Any]]) -> Section:
    """The content of `became`, as a table."""
    rows = [
        (query, f"{name}: {yaml.safe_dump(raw, default_flow_style=True, sort_keys=False, width=10_000).strip()}")
        for query, made in became.items()
        for name, raw in made.items()
    ]
    return Section("SQL", ("query", "operators that it became"), tuple(rows))


def _input_text(one: dict[str, Any]) -> str:
    """An input as text, such as `shaped (keyed by carrier)`; without brackets if the rows stay in the unit."""
    how = f"{one['routing']} by {', '.join(one['key'])}" if one["key"] else one["routing"]
    return one["from"] if one["topic"] is None else f"{one['from']} ({how})"
