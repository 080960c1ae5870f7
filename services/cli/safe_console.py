"""A console that shows control characters of its output as text, so that they have no effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from holdfast.services.kernel.visible import visible


class SafeConsole(Console):
    """Rich's own colours and cursor movements are no text of a segment, and stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or (shown := visible(segment.text)) == segment.text:
                yield segment
            else:
                yield Segment(shown, segment.style)
