"""Fields that a job leaves out come from the registry when it is submitted, or the job is refused with the cause."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from holdfast.services.client.local_run import of_files
from holdfast.services.client.registry_fields import with_fields
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.errors import JobRejected, Retriable
from holdfast.services.log.kafka.client_settings import secret_files
from holdfast.services.log.kafka.registry import Registry, RegistryUnusable, open_registry
from holdfast.services.log.patience import Patience
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.support.avro import record

AVRO = json.dumps(record(("_id", "long"), ("price", ["null", "double"]), ("labels", {"type": "map", "values": "int"})))
AT_ONCE = Patience(0.0, lambda text: None)


def job(**source: Any) -> dict[str, Any]:
    queries = {"all": {"input": "orders", "sink": {"topic": "out"}}}
    return {"name": "j", "sources": {"orders": {"topic": "orders", "format": "avro", **source}}, "queries": queries}


@pytest.fixture
def registry() -> Registry:
    found = Registry("mock://", {})
    found.register("orders-value", WriterSchema("AVRO", AVRO))
    found.register("shop.Order", WriterSchema("JSON", '{"type":"object","properties":{"a":{"type":"integer"}}}'))
    return found


def problems(raw: dict[str, Any], registry: Registry | None) -> list[str]:
    with pytest.raises(JobRejected) as rejected:
        with_fields(raw, lambda: registry, lambda: AT_ONCE)
    return [str(one) for one in rejected.value.problems]


def test_the_newest_schema_of_the_topics_subject_or_of_the_one_that_is_named_gives_the_fields(
    registry: Registry,
) -> None:
    given = with_fields(job(), lambda: registry, lambda: AT_ONCE)
    fields = {"id": {"type": "int", "from": "_id"}, "price": "float?", "labels": "map<string, int>"}
    assert given["sources"]["orders"]["fields"] == fields
    assert not check(interpret(given), []).problems
    named = with_fields(job(format="json-schema", subject="shop.Order"), lambda: registry, lambda: AT_ONCE)
    assert named["sources"]["orders"]["fields"] == {"a": "int?"}
    assert of_files(interpret(given)).sources["orders"].format == "json"


def test_protobuf_fields_and_metadata_stand_beside_each_other(registry: Registry) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    file.message_type.add(name="A").field.add(name="_id", number=1, type=3, label=1)
    compiled = base64.standard_b64encode(file.SerializeToString()).decode()
    registry.register("proto-value", WriterSchema("PROTOBUF", compiled))
    user = {"type": "string?", "metadata": "key"}
    raw = job(format="protobuf", topic="proto", fields={"user": user})
    given = with_fields(raw, lambda: registry, lambda: AT_ONCE)
    assert given["sources"]["orders"]["fields"] == {"id": {"type": "int", "from": "_id"}, "user": user}
    assert not check(interpret(given), []).problems


def test_a_job_that_declares_its_fields_asks_no_registry() -> None:
    for raw in (job(fields={"a": "int"}), job(format="json"), {"sources": 5}, "no job"):
        assert with_fields(raw, lambda: pytest.fail("asked"), lambda: AT_ONCE) == raw


def test_a_schema_that_the_registry_does_not_have_is_a_problem_of_the_field(registry: Registry) -> None:
    assert "the registry has no subject other-value" in problems(job(topic="other"), registry)[0]
    assert "version 1 of shop.Order is of kind JSON" in problems(job(subject="shop.Order"), registry)[0]
    assert "HOLDFAST_REGISTRY_URL names it" in problems(job(), None)[0]
    assert problems(job(), None)[0].startswith("sources.orders.fields")


def test_a_registry_that_is_away_is_waited_for_as_long_as_a_command_waits(registry: Registry, monkeypatch: Any) -> None:
    answers = iter([Retriable("it does not answer")] * 2)
    newest, said = registry.newest, list[str]()

    def ask(subject: str) -> Any:
        for error in answers:
            raise error
        return newest(subject)

    monkeypatch.setattr(registry, "newest", ask)
    given = with_fields(job(), lambda: registry, lambda: Patience(30.0, said.append, sleep=lambda _: None))
    assert given["sources"]["orders"]["fields"]
    monkeypatch.setattr(registry, "newest", lambda subject: (_ for _ in ()).throw(Retriable("it does not answer")))
    assert "it does not answer" in problems(job(), registry)[0]


def test_fields_left_out_and_a_subject_without_a_registry_are_problems_of_the_job() -> None:
    found = [str(one) for one in check(interpret(job(subject="x")), []).problems]
    assert any(one.startswith("sources.orders.fields: are not known") for one in found)
    found = [str(one) for one in check(interpret(job(format="json", fields={"a": "int"}, subject="x")), []).problems]
    assert found == ["sources.orders.subject: a source of format json has none (leave it out)"]
    with pytest.raises(JobRejected, match=r"sources.orders.fields: is missing or empty"):
        interpret(job(format="json"))


def test_the_registrys_url_login_and_tls_are_settings(tmp_path: Path) -> None:
    (tmp_path / "login").write_text("user:secret\n")
    environment = {
        "HOLDFAST_REGISTRY_URL": "http://localhost:9",
        "HOLDFAST_REGISTRY_CLIENT_BASIC_AUTH_USER_INFO_FILE": str(tmp_path / "login"),
    }
    opened = open_registry(environment)
    assert opened is not None
    assert secret_files(environment) == {"HOLDFAST_REGISTRY_CLIENT_BASIC_AUTH_USER_INFO_FILE": tmp_path / "login"}
    with pytest.raises(Retriable, match="the registry at http://localhost:9 does not answer"):
        opened.find(1)
    with pytest.raises(RegistryUnusable, match=r"HOLDFAST_REGISTRY_URL=http://localhost:9: .*nonsense"):
        open_registry({**environment, "HOLDFAST_REGISTRY_CLIENT_NONSENSE": "1"})
    assert open_registry({}) is None
