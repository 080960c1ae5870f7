"""Boxes and lines of a graph: across a screen, and down a phone."""

from __future__ import annotations

from itertools import combinations

import pytest

from holdfast.schemas.plans import Plan
from holdfast.services.console.drafts import EXAMPLE, check
from holdfast.services.console.graph import graph
from holdfast.services.console.placement import LANE, MARGIN, MOST_LANES, WIDTH, Placement, across, down

PHONE = 390 - 2 * 12 - 2 * 8
"""Pixels for a graph on a phone: its width without the margins of the page and of the graph."""
NAMES = [f"step{at}" for at in range(9)]
MANY = """
name: many
sources: {a: {topic: a, fields: {k: string, v: int}}}
operators:
  step0: {filter: "v > 0", input: a}
""" + "".join(f'  step{at}: {{filter: "v > {at}", input: step{at - 1}}}\n' for at in range(1, 9)) + f"""
  all: {{union: [a, {", ".join(NAMES)}]}}
queries: {{out: {{input: all, sink: {{topic: out}}}}}}
"""  # fmt: skip
"""An operator that reads all others: nine lines pass boxes by."""


def plan(written: str) -> Plan:
    found = check(written, None, "t", [])
    assert found.plan is not None, found.problems
    return found.plan


def apart(place: Placement) -> bool:
    """No two boxes cover each other."""
    return all(
        one.x + WIDTH <= other.x
        or other.x + WIDTH <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
        for one, other in combinations(place.boxes.values(), 2)
    )


@pytest.mark.parametrize("written", [EXAMPLE, MANY], ids=["chain", "many"])
def test_a_graph_on_a_phone_has_its_width_and_goes_down(written: str) -> None:
    made = plan(written)
    place = down(made)
    assert place.width <= PHONE
    assert apart(place)
    assert all(place.boxes[one.producer].y < place.boxes[one.consumer].y for one in made.edges)
    assert {line.edge for line in place.lines} == set(made.edges)
    assert max(box.y + box.height for box in place.boxes.values()) < place.height


def test_a_graph_on_a_screen_goes_across() -> None:
    made = plan(MANY)
    place = across(made)
    assert apart(place)
    assert all(place.boxes[one.producer].x < place.boxes[one.consumer].x for one in made.edges)


def test_a_line_that_passes_boxes_has_a_lane_of_its_own_while_there_are_some() -> None:
    place = down(plan(MANY))
    beside = [line for line in place.lines if "Q" in line.path]
    assert len(beside) == len(NAMES), "every step but the last is read past another one"
    used = {(int(line.path.partition("Q")[2].partition(",")[0]) - MARGIN - WIDTH) // LANE for line in beside}
    assert all(line.x > MARGIN + WIDTH for line in beside), "no box hides a rate"
    assert used == set(range(1, MOST_LANES + 1)), "those that do not fit share the last"


def test_both_pictures_are_there_and_one_is_for_a_reader_of_the_page() -> None:
    made = graph(plan(EXAMPLE))
    assert made.count("<svg") == 2
    assert made.count('class="operator"') == 2 * 4
