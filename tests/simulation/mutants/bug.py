"""A deliberate bug, and how one stands in for a method."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature
from typing import Any
from unittest import mock

Bug = Callable[[], AbstractContextManager[object]]


def method(owner: Any, name: str) -> Callable[[Callable[..., Any]], Bug]:
    """The decorated function stands in for a method; it gets the true one first, and then what that one gets.

    A bug that takes other arguments would be caught by its own TypeError.
    """

    def decorate(instead: Callable[..., Any]) -> Bug:
        true = getattr(owner, name)
        takes = [*signature(true).parameters]
        assert [*signature(instead).parameters][1:] == takes, f"{instead.__name__}: {name} takes {', '.join(takes)}"

        def mutated(*args: Any, **kwargs: Any) -> Any:
            return instead(true, *args, **kwargs)

        def bug() -> AbstractContextManager[object]:
            return mock.patch.object(owner, name, mutated)

        bug.__name__ = instead.__name__
        return bug

    return decorate
