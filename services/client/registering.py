"""Schemas of sinks: registered before a job is submitted, and written into the job as the ids that its records name.

So a worker asks no registry to write, and all copies of a unit write the same bytes. Source: docs/decisions/0180.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan, Problem
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.codecs.sink_schemas import FORMATS, schema_of
from holdfast.services.kernel.errors import JobRejected, Retriable
from holdfast.services.log.kafka.registry import URL, Registry, RegistryUnusable
from holdfast.services.log.patience import Patience
from holdfast.services.log.seal.secret import SecretUnusable


def with_schemas(
    raw: dict[str, Any],
    spec: JobSpec,
    plan: Callable[[], Plan],
    open_registry: Callable[[], Registry | None],
    patience: Callable[[], Patience],
) -> dict[str, Any]:
    """The job with the id of a schema for every sink that needs one and has none; as it is where there is none.

    Args:
        raw: the job as it is to be submitted, which `spec` was read from.
        plan: plans it, for the columns of its sinks. open_registry: its None: no registry is set.

    Raises:
        JobRejected: with what the registry refuses, or with the problems of the job.
    """
    open_ = [
        name
        for name, query in spec.queries.items()
        if query.sink is not None and query.sink.format in FORMATS and query.sink.schema_id is None
    ]
    if not open_:
        return raw
    fields = {one.params["query"]: one.fields for one in plan().operators if one.kind == "sink"}
    try:
        registry = open_registry()
        if registry is None:
            raise RegistryUnusable(f"no Schema Registry is set: {URL} names it")
        ids = {name: _register(registry, spec, name, fields[name], patience()) for name in open_}
    except (RegistryUnusable, SecretUnusable, Retriable) as error:
        hint = "an id of a schema in `schema_id` needs no registry"
        problems = [Problem(f"queries.{name}.sink.schema_id", f"is missing, and {error}", hint) for name in open_]
        raise JobRejected(problems) from None
    queries = {
        name: {**query, "sink": {**query["sink"], "schema_id": ids[name]}} if name in ids else query
        for name, query in raw["queries"].items()
    }
    return {**raw, "queries": queries}


def _register(registry: Registry, spec: JobSpec, query: str, fields: Mapping[str, str], patience: Patience) -> int:
    sink = spec.queries[query].sink
    assert sink is not None
    subject, schema = sink.subject or f"{sink.topic}-value", schema_of(sink.format, fields)
    asked = WriterSchema(FORMATS[sink.format], schema)
    return patience.ask(f"the Schema Registry at {registry.url} to answer", lambda: registry.register(subject, asked))
