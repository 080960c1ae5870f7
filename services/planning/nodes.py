"""Nodes of a YAML text, each with its place, and the data that they stand for, by the scalars of YAML 1.2.

libyaml composes several times as fast as PyYAML. It takes some texts that PyYAML refuses, words its errors in another
way, and would overflow the stack of C on a deep text: these are left to PyYAML, so that a text has the same nodes and
the same errors where libyaml is absent.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_DEEP = 100
"""Levels of a text that libyaml composes. No job file has ten."""
_READ_OTHERWISE = re.compile("[\t\ufeff]|[|>][-+0-9]*#")
"""Tabs, byte order marks, and a comment right behind the sign of a block: libyaml takes them where PyYAML does not."""
_BOOL, _TIME, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("bool", "timestamp", "float"))


class _Loader(yaml.SafeLoader):
    """PyYAML's SafeLoader with the scalars of YAML 1.2."""

    _in_plain = False

    def scan_plain(self) -> Any:
        self._in_plain = True
        try:
            return super().scan_plain()
        finally:
            self._in_plain = False

    def peek(self, index: int = 0) -> str:
        """Hides `?` from PyYAML inside a plain scalar. PyYAML ends a word at `?` inside braces, so `{delay: float?}`
        would be a syntax error; in YAML 1.2 it is not."""
        character = str(super().peek(index))
        return "_" if self._in_plain and character == "?" else character


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _TIME)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(_FLOAT, re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789"))


if yaml.__with_libyaml__:

    class _Fast(yaml.CSafeLoader):
        """libyaml with the same scalars. Raises RecursionError below MOST_DEEP levels."""

        yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers
        _levels = 0

        def descend_resolver(self, current_node: Any, current_index: Any) -> None:
            self._levels += 1
            if self._levels > MOST_DEEP:
                raise RecursionError

        def ascend_resolver(self) -> None:
            self._levels -= 1


def compose(text: str) -> yaml.Node | None:
    """The root; None of a text without content.

    Raises:
        YAMLError: a syntax error, with its place.
        RecursionError: nested too deeply.
    """
    if yaml.__with_libyaml__ and not _READ_OTHERWISE.search(text):
        try:
            return yaml.compose(text, _Fast)
        except (yaml.YAMLError, UnicodeEncodeError, RecursionError):
            pass  # PyYAML takes it, or says why not
    return yaml.compose(text, _Loader)


def construct(root: yaml.Node) -> Any:
    """The data that a root stands for. Raises YAMLError, RecursionError."""
    loader = _Loader("")
    try:
        return loader.construct_document(root)
    finally:
        loader.dispose()
