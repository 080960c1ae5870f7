"""A line without axes that shows the recent values of a number."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.services.console.markup import Node, element

WIDTH, HEIGHT = 96, 22


def spark_line(values: Sequence[float]) -> Node:
    """Empty for fewer than two values."""
    if len(values) < 2:
        return ""
    top = max(*values, 1e-9)
    step = WIDTH / (len(values) - 1)
    points = " ".join(
        f"{at * step:.1f},{HEIGHT - 2 - (HEIGHT - 4) * value / top:.1f}" for at, value in enumerate(values)
    )
    line = element("polyline", points=points)
    area = element("polygon", points=f"0,{HEIGHT} {points} {WIDTH},{HEIGHT}")
    return element("svg", area, line, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="spark", aria_hidden="true")
