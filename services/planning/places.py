"""Finds the line of a job file to which a problem belongs."""

from __future__ import annotations

import re

import yaml

from holdfast.schemas.plans import Problem
from holdfast.services.planning.nodes import compose

_SYNTAX = re.compile(r".*:(\d+):\d+")
"""The path of a syntax error, which is file, line and column."""
_NAMES = re.compile(r"[^.\[\]]+")


def line_of(written: str, problem: Problem) -> int | None:
    """The line of a problem, counted from 1; the line of the smallest enclosing part if the file lacks the path itself.
    None if unknown."""
    if syntax := _SYNTAX.fullmatch(problem.path):
        return int(syntax[1])
    try:
        node = compose(written)
    except yaml.YAMLError:
        return None
    line: int | None = None
    for name in _NAMES.findall(problem.path):
        found = _child(node, name)
        if found is None:
            break
        line, node = found
    return line


def _child(node: yaml.Node | None, name: str) -> tuple[int, yaml.Node] | None:
    """The line and the value of a key or list index; None if the node has no such child."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        found = node.value[int(name)]
        return found.start_mark.line + 1, found
    return None
