"""One direction of a partition between a process and the simulated broker: order is kept, and each item takes time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.kafka.link import Link

Item = Callable[[], None]


class Channel:
    """Carries items in order, each batch of them after a delay; nothing passes while `passes` says no."""

    def __init__(self, link: Link, passes: Callable[[], bool]) -> None:
        self._link, self._passes = link, passes
        self._items: deque[Item] = deque()
        self._under_way = False
        self._sent = 0
        link.channels.append(self)

    def send(self, item: Item) -> None:
        self._items.append(item)
        self._go()

    def kick(self) -> None:
        """Lets pass what waited."""
        self._go()

    def cut_off(self, keep: bool) -> None:
        """Its process stopped: what is on the wire already arrives, the rest is lost or, with `keep`, waits."""
        sent = self._link.random.randint(0, len(self._items)) if self._passes() else 0
        if keep:
            self._sent = sent
        else:
            self._items = deque(list(self._items)[:sent])
            self._sent = sent
        self._go()

    @property
    def waiting(self) -> int:
        return len(self._items)

    def _go(self) -> None:
        if self._items and not self._under_way and (self._sent or self._passes()):
            self._under_way = True
            self._link.timeline.after(self._link.delay_us(), self._arrive)

    def _arrive(self) -> None:
        self._under_way = False
        if self._passes():
            count, self._sent = self._link.random.randint(1, max(1, len(self._items))), 0
        elif self._sent and self._link.broker.available:
            count, self._sent = self._sent, 0
        else:
            return
        for _ in range(count):
            if self._items:  # what arrived may have been the end of its process
                self._items.popleft()()
        self._go()
