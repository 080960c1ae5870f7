"""A figure: its measurements, its drawing, and the rules by which it counts as reproduced. Pure.

Source: MECHANISMS section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

Values = dict[str, float]
"""Numbers of one point of a figure, by name; the unit is the end of the name."""
Data = Mapping[str, Values]
"""All points of a figure, by key."""


class Ground(Enum):
    """Source of the numbers of a figure."""

    MODEL = "the cluster-scale model, driven by the cores of the services"
    PROCESS = "one process: the operators and the state of a worker, without a cluster"
    CLUSTER = "workers of their own on a real Kafka on this machine"


class Verdict(Enum):
    """Results of `verdict`."""

    REPRODUCED = "reproduced"
    IN_SHAPE = "reproduced in shape"
    NOT = "not reproduced"
    OPEN = "not measured yet"


@dataclass(frozen=True, slots=True)
class Check:
    """A rule for a figure.

    what: the rule.
    found: the measured value.
    shape: true for a rule on the shape of the curves. The other rules hold sizes: if only such rules fail, the figure
        is reproduced in shape.
    """

    what: str
    found: str
    holds: bool
    shape: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or a set of bars.

    points: (x, y) in the order of x.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """A pair of axes.

    x, y: names of the values, with units.
    bars: names along x; without them lines are drawn.
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    bars: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False


class Keep(Protocol):
    """Takes a point that is measured; it need not be measured again."""

    def __call__(self, key: str, values: Values, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of MECHANISMS 6.

    paper: its place there.
    expected: its shape in words.
    setup: ours.
    keys: its points.
    measure: some of them, each given to `Keep` when it is done.
    seconds: about how long all take.
    """

    tag: str
    title: str
    paper: str
    expected: str
    setup: str
    ground: Ground
    keys: tuple[str, ...]
    measure: Callable[[Sequence[str], Keep], None]
    plots: Callable[[Data], Sequence[Plot]]
    checks: Callable[[Data], Sequence[Check]]
    seconds: float
    differs: str = ""

    def complete(self, data: Data) -> bool:
        return all(key in data for key in self.keys)


def verdict(checks: Sequence[Check]) -> Verdict:
    """Reproduced: every rule holds. In shape: every rule of shape holds. Without rules nothing is said."""
    if not checks:
        return Verdict.OPEN
    if all(check.holds for check in checks):
        return Verdict.REPRODUCED
    return Verdict.IN_SHAPE if all(check.holds for check in checks if check.shape) else Verdict.NOT
