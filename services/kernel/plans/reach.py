"""The nodes reached over the edges of a graph, directly or through others."""

from __future__ import annotations

from collections.abc import Mapping, Set


def reach(direct: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
    """The names reached from each name; the name itself only if a cycle returns to it.

    direct: by name, the ends of its edges.
    """
    return {name: _reached(name, direct) for name in direct}


def _reached(name: str, direct: Mapping[str, Set[str]]) -> frozenset[str]:
    found, left = set[str](), [name]
    while left:
        new = direct[left.pop()] - found
        found |= new
        left += new
    return frozenset(found)
