"""Each endless loop, and each place that handles Retriable, is in docs/bounds.md with its bound."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / "services"
RETRIED = {"Retriable", "Refused", "Indefinite", "TopicGone"}
MAY_TRY_AGAIN = re.compile(rf"\bwhile\s+(True|\d)|{'|'.join(sorted(RETRIED))}")
"""A file without it holds neither. To walk through the trees of all files takes seconds."""
SECTION = (ROOT / "docs/bounds.md").read_text(encoding="utf-8").partition("\n## What is tried again\n")[2]


def listed() -> set[str]:
    """file:function of each row."""
    table = SECTION.partition("\n## ")[0]
    return set(re.findall(r"`([\w/]+\.py:\w+)`", table))


def found_in(path: Path) -> Iterator[str]:
    name, text = path.relative_to(SERVICES).as_posix(), path.read_text(encoding="utf-8")
    for function in ast.walk(ast.parse(text if MAY_TRY_AGAIN.search(text) else "")):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any(_endless(node) or _continues(node) for node in _own(function)):
            yield f"{name}:{function.name}"


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, those of functions inside it left out."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _own(child)


def _endless(node: ast.AST) -> bool:
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _continues(node: ast.AST) -> bool:
    """It handles an error that asks to try again, without raising in every way."""
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        return _names(node.type) & RETRIED != set() and not isinstance(node.body[-1], ast.Raise)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "suppress":
        return any(_names(argument) & RETRIED for argument in node.args)
    return False


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_every_retry_is_listed_with_its_bound() -> None:
    found = {one for path in sorted(SERVICES.rglob("*.py")) for one in found_in(path)}
    assert found - listed() == set(), "without a row in docs/bounds.md, 'What is tried again'"
    assert listed() - found == set(), "rows of what is no longer there"


def test_the_search_finds_loops_and_handlers(tmp_path: Path) -> None:
    text = (
        "def a():\n    while True:\n        pass\n"
        "def b():\n    try:\n        a()\n    except (Retriable, OSError):\n        return None\n"
        "def c():\n    try:\n        a()\n    except Retriable as error:\n        raise Other() from error\n"
        "def d():\n    with suppress(Retriable):\n        a()\n"
        "def e():\n    while 1 < 2:\n        pass\n"
    )
    assert [name for name in _found(text)] == ["a", "b", "d"]


def _found(text: str) -> Iterator[str]:
    for function in ast.parse(text).body:
        assert isinstance(function, ast.FunctionDef)
        if any(_endless(node) or _continues(node) for node in _own(function)):
            yield function.name
