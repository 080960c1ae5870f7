"""A number in a message stands with its noun in the right form: kernel/plurals.py has the one function for it."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.kernel.plurals import plural

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


def test_plural_is_used_wherever_a_number_has_a_noun() -> None:
    found = []
    for path in sorted(SERVICES.rglob("*.py")):
        name, text = path.relative_to(SERVICES.parent).as_posix(), path.read_text(encoding="utf-8")
        if name not in NEVER_ONE:
            found += [f"{name}:{line}" for line in fixed(text)]
    assert found == []


def test_one_has_no_s() -> None:
    assert [plural(1, "unit"), plural(2, "unit"), plural(1_000, "query", "queries")] == [
        "1 unit",
        "2 units",
        "1,000 queries",
    ]
