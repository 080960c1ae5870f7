"""The Schema Registry: maps an id to its schema, and a subject to its versions.

The client is confluent-kafka's, an extra of the package. `mock://` names a registry in memory of this process, for
tests. The schema of an id never changes, so it is requested once. Source: docs/decisions/0166.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, AbsentSchemas, Schemas, WriterSchema
from holdfast.services.kernel.errors import HoldfastError, Retriable
from holdfast.services.log.kafka.client_settings import REGISTRY_PREFIX, client_settings
from holdfast.services.log.seal.secret import SecretUnusable

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

URL = "HOLDFAST_REGISTRY_URL"
COMMAND = "pip install 'holdfast-streams[registry]'"
TIMEOUT_S = 10.0
_PACKAGES = ("authlib", "cachetools", "httpx2")
_ABSENT = 404
_PROTOBUF, _COMPILED = "PROTOBUF", "serialized"


class RegistryUnusable(HoldfastError):
    """The registry refuses a request, or cannot be asked at all: a person must change a setting."""


class Version(NamedTuple):
    """A version of a subject: id of its schema, number of the version, and schema."""

    id: int
    version: int
    schema: WriterSchema


def missing() -> str:
    """Text that names missing packages; empty if the client is installed. Imports nothing."""
    absent = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    return f"no client of a Schema Registry is installed here, there is no {' and no '.join(absent)}" if absent else ""


class Registry:
    """A Schema Registry.

    Args:
        url: its address; several separated by commas.
        settings: properties of the client, such as basic.auth.user.info.

    Raises RegistryUnusable.
    """

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        if absent := missing():
            raise RegistryUnusable(f"{absent}: {COMMAND}")
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.url = url
        try:
            self._client: Any = SchemaRegistryClient.new_client(
                {"url": url, "timeout": TIMEOUT_S, "max.retries": 1, **settings}
            )
        except Exception as error:  # errors of the client: ValueError, TypeError, errors of ssl
            raise RegistryUnusable(f"{URL}={url}: {error}") from None
        self._known: dict[int, WriterSchema] = {}
        self._lock = threading.Lock()

    def find(self, id: int) -> WriterSchema | None:
        """The schema of an id; None if the registry does not have it. Raises Retriable, RegistryUnusable."""
        with self._lock:
            if (found := self._known.get(id)) is None and (schema := self._ask("get_schema", id)) is not None:
                if schema.schema_type == _PROTOBUF:  # Protobuf schemas are requested in compiled form
                    schema = self._ask("get_schema", id, None, _COMPILED) or schema
                found = self._known[id] = _schema(schema)._replace(versions=self._versions(id))
            return found

    def _versions(self, id: int) -> tuple[tuple[str, int], ...]:
        """Subjects of a schema with its version, for messages; empty if the registry does not report them."""
        try:
            found = self._ask("get_schema_versions", id, None, True)
        except (RegistryUnusable, Retriable):  # an older registry, or no right to ask: versions are only for messages
            return ()
        return tuple(sorted((one.subject, one.version) for one in found or ()))

    def newest(self, subject: str) -> Version | None:
        """The newest version of a subject; None if there is none. Raises Retriable, RegistryUnusable."""
        found = self._ask("get_latest_version", subject)
        if found is not None and found.schema.schema_type == _PROTOBUF:
            found = self._ask("get_latest_version", subject, _COMPILED) or found
        return None if found is None else Version(found.schema_id, found.version, _schema(found.schema))

    def register(self, subject: str, schema: WriterSchema) -> int:
        """Registers the schema under the subject; returns its id, new or existing. Raises
        Retriable, RegistryUnusable.
        """
        from confluent_kafka.schema_registry import Schema

        id: int = self._ask("register_schema", subject, Schema(schema.text, schema.kind))
        return id

    def _ask(self, call: str, *arguments: object) -> Any:
        """The client's answer; None if the registry has no such entry. Raises Retriable, RegistryUnusable."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return getattr(self._client, call)(*arguments)
        except SchemaRegistryError as error:
            if error.http_status_code == _ABSENT and call != "register_schema":
                return None
            if error.http_status_code >= 500 or error.http_status_code == 429:
                raise Retriable(f"the registry at {self.url} answers {error.http_status_code}: {error}") from None
            raise RegistryUnusable(f"the registry at {self.url} refuses: {error}") from None
        except Exception as error:  # an error of the transport
            raise Retriable(f"the registry at {self.url} does not answer: {error or type(error).__name__}") from None


def _schema(schema: Schema) -> WriterSchema:
    return WriterSchema(schema.schema_type or "AVRO", schema.schema_str or "", bool(schema.references))


def open_registry(environment: Mapping[str, str] = os.environ) -> Registry | None:
    """The registry that the environment names; None if none is set. Raises RegistryUnusable, SecretUnusable."""
    url = environment.get(URL, "")
    return Registry(url, client_settings(environment, REGISTRY_PREFIX)) if url else None


@cache
def of_this_process() -> Schemas:
    """The schemas for readers of this process. If the registry's client is unusable, each
    question raises the reason.
    """
    try:
        return open_registry() or NO_SCHEMAS
    except (RegistryUnusable, SecretUnusable) as error:
        return AbsentSchemas(str(error))
