"""Reads the text of a job file, YAML or JSON, as plain data. Reports every duplicate key and the place of a syntax
error.

Source: JOBS "A job file (YAML or JSON)". Scalars follow the rules of YAML 1.2, so the key `on` is not the boolean true,
a time stays text, and `float?` is a word.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.plurals import plural
from holdfast.services.planning.nodes import compose, construct

MAX_CHARACTERS = 1024 * 1024


def read(text: str, name: str) -> Any:
    """Reads the text as plain data.

    Args:
        name: name of the file, for messages.

    Raises:
        JobRejected: a syntax error with line and column, or every duplicate key.
    """
    if len(text) > MAX_CHARACTERS:
        raise _rejected(name, f"larger than {MAX_CHARACTERS} characters", "a job file describes data, it holds none")
    try:
        return _read_json(text, name) if text.lstrip().startswith("{") else _read_yaml(text, name)
    except RecursionError:
        raise _rejected(name, "nested too deeply") from None


def _read_json(text: str, name: str) -> Any:
    """Reads text that begins with a brace, which is JSON or YAML."""
    try:
        root = json.loads(text, object_pairs_hook=_Object)
    except json.JSONDecodeError as error:
        if name.endswith(".json"):
            raise _rejected(f"{name}:{error.lineno}:{error.colno}", f"not JSON: {error.msg}") from None
        return _read_yaml(text, name)
    if twice := list(_written_twice(root)):
        raise JobRejected([Problem(path, "written twice", "keep one of them") for path in twice])
    return root


class _Object(dict[str, Any]):
    """A JSON object that records its duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.twice = [key for key, count in counts.items() if count > 1]


def _written_twice(root: Any, path: str = "") -> Iterator[str]:
    if isinstance(root, list):
        for index, item in enumerate(root):
            yield from _written_twice(item, f"{path}[{index}]")
    elif isinstance(root, _Object):
        yield from (_under(path, key) for key in root.twice)
        for key, value in root.items():
            yield from _written_twice(value, _under(path, key))


def _read_yaml(text: str, name: str) -> Any:
    try:
        root = compose(text)
        if root is None:
            raise _rejected(name, "is empty", "a job has at least name, sources and queries")
        if duplicates := list(_duplicates(root)):
            raise JobRejected(duplicates)
        return construct(root)
    except yaml.MarkedYAMLError as error:
        raise _rejected(_place(name, error), f"not YAML: {_what(error)}", _hint(error.problem or "")) from None
    except yaml.YAMLError as error:
        raise _rejected(name, f"not YAML: {' '.join(str(error).split())}") from None


_HINTS = {
    "found character '\\t' that cannot start any token": "indent with spaces, not tabs",
    "mapping values are not allowed here": "quote text that holds a colon followed by a space",
    "expected a single document in the stream": "one job a file",
    "expected '<document start>'": "a job file is one mapping, a line `NAME: VALUE` for each setting",
}


def _hint(problem: str) -> str:
    return next((hint for words, hint in _HINTS.items() if problem.startswith(words)), "")


def _place(name: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return name if mark is None else f"{name}:{mark.line + 1}:{mark.column + 1}"


def _what(error: yaml.MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)


def _duplicates(root: yaml.Node) -> Iterator[Problem]:
    """Problems of keys that a mapping has twice. Otherwise one of the two values would silently win."""
    waiting: list[tuple[str, yaml.Node]] = [("", root)]
    seen: set[int] = set()
    while waiting:
        path, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(f"{path}[{index}]", item) for index, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, list[int]] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                lines.setdefault(key.value, []).append(key.start_mark.line + 1)
                waiting.append((_under(path, key.value), value))
            for name, found in lines.items():
                if len(found) > 1 and name != "<<":
                    times = "twice, in" if len(found) == 2 else f"{plural(len(found), 'time')}, first in"
                    message = f"written {times} lines {found[0]} and {found[1]}"
                    yield Problem(_under(path, name), message, "keep one of them")


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _rejected(path: str, message: str, hint: str = "") -> JobRejected:
    return JobRejected([Problem(path, message, hint)])
