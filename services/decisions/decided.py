"""The log decides: the one rule by which proposals on a decided log count or do not.

A proposal has a key, an id and `prev`; it is valid iff prev is the id of the last valid record of its key, and the
local condition of its type holds. An author acts only on records that it reads back as valid. Source: PROTOCOL 0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.schemas.decided import Id


class LastValid:
    """The id of the last valid record by key."""

    def __init__(self, last: Mapping[str, Id | None] | None = None) -> None:
        self._last: dict[str, Id | None] = dict(last or {})

    def of(self, key: str) -> Id | None:
        return self._last.get(key)

    def fits(self, key: str, prev: Id | None) -> bool:
        return self._last.get(key) == prev

    def accept(self, key: str, id: Id) -> None:
        self._last[key] = id

    def forget(self, over: Callable[[str], bool]) -> None:
        """Forgets the keys that are over, of which no proposal is valid any more."""
        self._last = {key: id for key, id in self._last.items() if not over(key)}


class Author:
    """Numbers the proposals of one incarnation, so that it recognises its own when it reads them back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counter = 0

    def next(self) -> Id:
        self._counter += 1
        return Id(self._name, self._counter)

    def wrote(self, id: Id) -> bool:
        return id.author == self._name
