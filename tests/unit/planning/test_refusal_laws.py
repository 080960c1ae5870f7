"""Whatever a file holds, it becomes a plan or a list of problems with a path: never another exception."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.loader import interpret, load
from holdfast.services.planning.plain_data import read
from tests.unit.planning.jobs import plan

EXAMPLE = Path(__file__).parents[2] / "support" / "jobs" / "flight-delays.yaml"
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["late", "s"])
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3)
)


def places(raw: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value."""
    inner = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


PLACES = places(read(EXAMPLE.read_text(), EXAMPLE.name))[1:]


@st.composite
def damaged(draw: st.DrawFn) -> dict[Any, Any]:
    """The example with up to three values replaced, removed, or joined by others."""
    raw: dict[Any, Any] = read(EXAMPLE.read_text(), EXAMPLE.name)
    for *way, last in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        at: Any = raw
        try:
            for step in way:
                at = at[step]
            at[last] = draw(ANYTHING)
            if isinstance(at, dict) and draw(st.booleans()):
                at[draw(SCALARS)] = at.pop(last)
        except (KeyError, IndexError, TypeError):
            continue  # An earlier change took this place away.
    return raw


def problems(call: Callable[[], object]) -> Sequence[Problem]:
    """What the call was rejected for; any other exception fails the test."""
    try:
        call()
    except JobRejected as error:
        return error.problems
    return ()


@given(damaged())
def test_a_damaged_job_is_planned_or_refused(raw: dict[Any, Any]) -> None:
    found = problems(lambda: plan(raw, {"flights": 2, "weather": 1, "delays": 1}, ["tests.support"]))
    assert all(problem.path and problem.message for problem in found)


@given(ANYTHING)
def test_anything_at_all_is_refused(raw: Any) -> None:
    assert problems(lambda: interpret(raw))


@given(st.text(alphabet=st.sampled_from(list("{}[]:,'\"&*!?|>-#%@` \n\tab1.<~\\\u0085\ufeff")), max_size=40))
def test_any_text_is_refused(text: str) -> None:
    assert problems(lambda: load(text, "job.yaml"))
    assert problems(lambda: load(text, "job.json"))


@given(st.dictionaries(st.text(max_size=5), ANYTHING, max_size=3))
def test_json_is_read_as_json_whatever_its_characters(raw: dict[str, Any]) -> None:
    text = json.dumps(raw)
    assert json.dumps(read(text, "job.json")) == json.dumps(json.loads(text))
