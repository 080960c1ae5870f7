"""A job file as Python, and back: the same job, and the same plan."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.decided import Id
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan
from holdfast.services.planning.conversion import to_python, to_yaml
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan

ROOT = Path(__file__).parents[3]
ODD = """
name: sum
sources:
  given:
    topic: given
    fields: {id: {type: string, from: "@\\"id\\\\"}, at: timestamp, "größe": "decimal(10,2)?"}
    close_after_idle_s: null
operators:
  dup: {dedup: {within_s: 0.5}, key: [id], input: given}
  code: {python: "a.b:C", input: dup, params: {list: [1, 2.5, {deep: null}], text: 'a "b"', yes: true}}
queries: {all: {input: code}}
"""


def examples() -> list[str]:
    """Every job file of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "*.yaml", "*.yml"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in listed.stdout.splitlines()}
    return [name for name, text in texts.items() if "\nsources:" in text and "\nqueries:" in text]


def run(text: str) -> JobSpec:
    """The job that a module defines."""
    names: dict[str, Any] = {}
    exec(compile(text, "converted.py", "exec"), names)
    (job,) = [value for value in names.values() if isinstance(value, JobSpec)]
    return job


def plan(spec: JobSpec) -> Plan:
    return make_plan(
        spec, generation="0-abcdef", id=Id("controller", 1), topics=None, first={}, prefix="t", versions={},
        allow=["tests", "compose"],
    )  # fmt: skip


def test_the_repository_has_examples() -> None:
    assert len(examples()) >= 7


@pytest.mark.parametrize("name", examples())
def test_an_example_is_the_same_job_in_python_and_in_a_job_file(name: str) -> None:
    spec = load((ROOT / name).read_text(encoding="utf-8"), name)
    converted, back = run(to_python(spec)), load(to_yaml(spec), name)
    assert converted.as_written() == back.as_written() == spec.as_written()
    if any(operator.kind == "spark" for operator in spec.operators.values()):
        assert converted.as_plain() == spec.as_plain()  # its plan needs Java
    else:
        assert plan(converted) == plan(back) == plan(spec)


def test_odd_names_and_values_survive() -> None:
    spec = load(ODD, "odd.yaml")
    text = to_python(spec)
    assert max(map(len, text.splitlines())) <= 120
    assert run(text).as_written() == load(to_yaml(spec), "odd.yaml").as_written() == spec.as_written()


def test_a_job_that_is_called_as_a_function_that_it_uses_gets_another_name() -> None:
    assert "\nquery_job = Job(\n" in to_python(load(ODD.replace("name: sum", "name: query"), "odd.yaml"))
