"""A number in a message stands with its noun in the right form: kernel/plurals.py has the one function for it."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs.fields import SIMPLE
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.plurals import digits, plural, with_article
from holdfast.services.planning.loader import interpret

SERVICES = Path(__file__).parents[2] / "services"
NOUNS = [
    "batches",
    "brokers",
    "bytes",
    "columns",
    "controllers",
    "copies",
    "entries",
    "events",
    "files",
    "frames",
    "generations",
    "hosts",
    "jobs",
    "keys",
    "letters",
    "lines",
    "messages",
    "mistakes",
    "offsets",
    "operators",
    "partitions",
    "problems",
    "processes",
    "queries",
    "records",
    "replicas",
    "requests",
    "rights",
    "rows",
    "slots",
    "sources",
    "streams",
    "tasks",
    "times",
    "topics",
    "units",
    "values",
    "workers",
]
FIXED = re.compile(rf" (?:dead )?(?:{'|'.join(NOUNS)})\b(?!/)| (?:are|were) | ?\w*\(s\)")
MAYBE = re.compile(rf"""[}}"'](?:{FIXED.pattern})|'s'|"s\"""")
"""Files without it need not be parsed: the noun stands behind a brace, or begins a further part of the text."""
NEVER_ONE = {
    "services/kernel/codecs/arrow_records.py": "a constant",
    "services/kernel/plurals.py": "the one function",
    "services/view/happenings.py": "shown where it is not 1",
}


def is_number(node: ast.FormattedValue) -> bool:
    """A count, as far as its text says: names of topics and units are texts."""
    text = ast.unparse(node.value)
    spec = "" if node.format_spec is None else ast.unparse(node.format_spec)
    return "," in spec or text.startswith(("len(", "sum(")) or bool(re.search(r"count|number|total|records|rows", text))


def fixed(text: str) -> Iterator[int]:
    """Lines of f-strings in which a number has a noun of one form, or a verb, or an s that depends on it."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in itertools.pairwise([*node.values, ast.Constant("")]):
            if isinstance(value, ast.FormattedValue) and "'s'" in ast.unparse(value.value):
                yield value.lineno
            elif isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant) and is_number(value):
                yield from [value.lineno] if FIXED.match(str(behind.value)) else []


@pytest.mark.parametrize(
    "line",
    [
        "f'{len(units)} units'",
        "f'{count:,} records in'",
        "f'{n:,} dead letters'",
        "f'{self.number} are gone'",
        """f"{n} unit{'s' * (n > 1)}\"""",
        "f'{count} unit(s)'",
    ],
)
def test_a_fixed_noun_or_verb_behind_a_number_is_found(line: str) -> None:
    assert list(fixed(line)) == [1]
    assert MAYBE.search(line)


def test_plural_is_used_wherever_a_number_has_a_noun() -> None:
    found = []
    for path in sorted(SERVICES.rglob("*.py")):
        name, text = path.relative_to(SERVICES.parent).as_posix(), path.read_text(encoding="utf-8")
        if name not in NEVER_ONE and MAYBE.search(text):
            found += [f"{name}:{line}" for line in fixed(text)]
    assert found == []


def test_a_single_thing_has_no_s() -> None:
    assert [plural(1, "unit"), plural(2, "unit"), plural(1_000, "query", "queries")] == [
        "1 unit",
        "2 units",
        "1,000 queries",
    ]


@pytest.mark.parametrize("kind", [*SIMPLE, "list<int>", "struct<a: int>", "decimal(10,2)", "int?"])
def test_a_type_has_its_article(kind: str) -> None:
    assert with_article(kind) == ("an " if kind.startswith("int") else "a ") + kind


@pytest.mark.parametrize(
    ("number", "shown"),
    [(34_560_000.0, "34560000"), (1e21, "1" + "0" * 21), (0.25, "0.25"), (2.0, "2"), (-1.5, "-1.5")],
)
def test_a_number_has_no_exponent(number: float, shown: str) -> None:
    assert digits(number) == shown


def test_no_message_about_a_setting_shows_an_exponent() -> None:
    """Each number of a job file, far too small: the answer says so in plain digits."""
    source = {"topic": "a", "fields": {"v": "int", "t": "timestamp"}, "event_time": "t"}
    asked = 0
    for owner, made in ((Source, lambda one: {"sources": {"a": {**source, **one}}}), (JobSpec, lambda one: one)):
        for name, field in owner.model_fields.items():
            if "float" in str(field.annotation) or "int" in str(field.annotation):
                raw = {
                    "name": "job",
                    "sources": {"a": source},
                    "queries": {"q": {"input": "a"}},
                    **made({name: -3.456e7}),
                }
                said = [f"{one.message} {one.hint}" for one in refused(raw)]
                assert said, name
                asked += any("-34560000" in one for one in said)
                assert not [one for one in said if re.search(r"\de[+-]?\d", one)], said
    assert asked > 2


def refused(raw: dict[str, Any]) -> list[Problem]:
    with pytest.raises(JobRejected) as error:
        interpret(raw)
    return list(error.value.problems)
