"""Fields that a job leaves out, taken from the Schema Registry and written into the job before it is submitted.

So the job holds all fields that it reads, and a schema that is registered later does not change the job. Source:
docs/decisions/0166.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.schemas.jobs import REGISTERED
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs import avro_schemas, json_schemas, protobuf_schemas
from holdfast.services.kernel.codecs.fields import members, required
from holdfast.services.kernel.codecs.registered import KINDS, WriterSchema
from holdfast.services.kernel.dataflow.source_records import subject_of
from holdfast.services.kernel.errors import JobRejected, Retriable
from holdfast.services.log.kafka.registry import URL, Registry, RegistryUnusable, Version
from holdfast.services.log.patience import Patience
from holdfast.services.log.seal.secret import SecretUnusable


def with_fields(raw: Any, open_registry: Callable[[], Registry | None], patience: Callable[[], Patience]) -> Any:
    """The job with the fields of every source that leaves them out; as it is where none does, or where it is no job.

    Args:
        open_registry: called where a source leaves its fields out; its None: no registry is set.
        patience: with a registry that does not answer; called where one is asked.

    Raises:
        JobRejected: with what the registry does not know.
    """
    sources = raw.get("sources") if isinstance(raw, dict) else None
    named = sources.items() if isinstance(sources, dict) else ()
    open_ = {name: one for name, one in named if isinstance(one, dict) and _leaves_out(one)}
    if not open_:
        return raw
    try:
        registry = open_registry()
    except (RegistryUnusable, SecretUnusable) as error:
        raise JobRejected([Problem(f"sources.{name}.fields", f"are left out, and {error}") for name in open_]) from None
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    for name, source in open_.items():
        path = f"sources.{name}.fields"
        if registry is None:
            problems.append(Problem(path, "are left out, and no Schema Registry is set", f"{URL} names it"))
            continue
        try:
            found[name] = {**source, "fields": _fields(registry, source, patience())}
        except _Unknown as error:
            problems.append(Problem(path, f"are left out, and {error}", error.hint))
        except (Retriable, RegistryUnusable) as error:
            problems.append(Problem(path, f"are left out, and {error}", f"{URL} and its login; or declare the fields"))
    if problems:
        raise JobRejected(problems)
    return {**raw, "sources": {**sources, **found}}  # type: ignore[dict-item]


class _Unknown(Exception):
    """The registry answers, and its answer gives no fields."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


def _leaves_out(source: dict[str, Any]) -> bool:
    return source.get("format") in REGISTERED and len(_metadata(source)) == len(source.get("fields") or ())


def _metadata(source: dict[str, Any]) -> dict[str, Any]:
    """Declared fields that are metadata of the records, which no schema has."""
    declared = source.get("fields")
    found = declared.items() if isinstance(declared, dict) else ()
    return {name: one for name, one in found if isinstance(one, dict) and "metadata" in one}


def _fields(registry: Registry, source: dict[str, Any], patience: Patience) -> Any:
    topics = source.get("topics")
    first = topics[0] if isinstance(topics, list) and topics else source.get("topic")
    subject = subject_of(first, source.get("subject"), source.get("subject_strategy") or "topic", source.get("record"))
    version = patience.ask(f"the Schema Registry at {registry.url} to answer", lambda: registry.newest(subject))
    if version is None:
        raise _Unknown(f"the registry has no subject {subject}", "`subject` names another one; or declare the fields")
    wanted, kind = KINDS[source["format"]], version.schema.kind
    if kind != wanted:
        message = f"version {version.version} of {subject} is of kind {kind}"
        raise _Unknown(message, f"format {source['format']} reads {wanted}")
    fields = _of(version.schema, subject, version)
    if source.get("envelope"):
        fields = _of_row(fields, f"version {version.version} of {subject}")
    found = {_column(name): _declared(name, text) for name, text in fields.items()} | _metadata(source)
    return found | _of_key(registry, source, f"{first}-key", patience, taken=found)


def _of_key(
    registry: Registry, source: dict[str, Any], subject: str, patience: Patience, taken: Mapping[str, Any]
) -> dict[str, Any]:
    """Fields of the key that neither the value nor the job has; none of a key that is no record."""
    if source.get("key_format") not in KINDS:
        return {}
    version = patience.ask(f"the Schema Registry at {registry.url} to answer", lambda: registry.newest(subject))
    if version is None or version.schema.kind != KINDS[source["key_format"]]:
        return {}
    try:
        fields = _READERS[version.schema.kind](version.schema.text)
    except (avro_schemas.NoSchema, protobuf_schemas.NoSchema):
        return {}
    named = {one["metadata"] for one in taken.values() if isinstance(one, dict) and "metadata" in one}
    return {
        _column(name): {"type": text, "metadata": f"key.{name}"}
        for name, text in fields.items()
        if _column(name) not in taken and f"key.{name}" not in named
    }


_READERS: dict[str, Callable[[str], dict[str, str]]] = {
    "AVRO": lambda text: avro_schemas.fields(avro_schemas.parse(text)),
    "JSON": json_schemas.fields,
    "PROTOBUF": protobuf_schemas.fields,
}
"""Fields of a schema, by its kind."""


def _of(schema: WriterSchema, subject: str, version: Version) -> dict[str, str]:
    named = f"version {version.version} of {subject}"
    try:
        found = _READERS[schema.kind](schema.text)
    except (avro_schemas.NoSchema, protobuf_schemas.NoSchema) as error:
        raise _Unknown(f"{named} {error}", "declare the fields") from None
    if not found:
        raise _Unknown(f"{named} has no field that a field type stands for", "declare the fields")
    return found


def _of_row(fields: dict[str, str], named: str) -> dict[str, str]:
    """The fields of the row that a change record carries."""
    after = required(fields.get("after", ""))
    if not after.startswith("struct<"):
        raise _Unknown(f"{named} has no `after` with fields: it is no change record of Debezium", "declare the fields")
    return members(after)


def _column(name: str) -> str:
    return name.lstrip("_") or "name"


def _declared(name: str, text: str) -> Any:
    """Names that begin with an underscore belong to holdfast."""
    return {"type": text, "from": name} if name.startswith("_") else text
