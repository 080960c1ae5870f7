"""The feed: one thread that keeps a picture of the cluster, for every viewer of this process.

The thread reads only while a viewer needs it: a page or a request wakes it, and it rests `REST_S` after the last
request. A console without viewers takes 0.2 % of a core, and a hundred viewers cost one fold.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.view.door import Door
from holdfast.services.view.live import LiveJob, LiveView, Picture

_log = logging.getLogger(__name__)
REST_S = 20.0
LOOK_S = 0.1
"""Longest wait for records, in seconds, before the next check for requests."""
SHARE = 0.02
"""Share of a processor that pictures may take: large jobs get fewer of them a second."""
GATHER_S = 0.05
"""Seconds for which records are collected and read together: a large cluster has one every few milliseconds."""
LEAST_S = 0.2
"""Between two pictures."""
PROMPT_SHARE = 0.15
"""The share after an event that is more than a count: a takeover must be shown at once."""
RATE_MS, MOST_RATES = 1_000, 90
"""Between two points of the line that shows how a rate has gone, and how many there are."""
AGAIN_S = 2.0
"""Between two tries while Kafka does not answer."""


class Feed:
    """Keeps the newest picture.

    broken: reason, for people, why the newest picture is old; empty: it is current.
    """

    def __init__(self, door: Door, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._door = door
        self._clock_s = clock_s
        self._wanted = threading.Event()
        self._fresh = threading.Event()
        self._ended = threading.Event()
        self._looked_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="console-feed", daemon=True)
        self._number = self._noted_ms = 0
        self._picture: Picture | None = None
        self._live: LiveView | None = None
        self._rates: dict[str, deque[float]] = {}
        self.broken = ""

    @property
    def rates(self) -> Mapping[str, Sequence[float]]:
        """Records a second that each job took in, by generation, the newest last."""
        return {generation: tuple(one) for generation, one in self._rates.items()}

    @property
    def fresh(self) -> bool:
        """True if it has not failed, so that a first picture is worth a wait."""
        return not self.broken

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def look(self) -> Picture | None:
        """The newest picture; None: there is none yet, or it is of before a rest. Wakes the feed."""
        self._looked_s = self._clock_s()
        self._wanted.set()
        return self._picture

    def wait(self, timeout_s: float) -> Picture | None:
        """The newest picture, after a wait of at most timeout_s for the first one."""
        if (found := self.look()) is None:
            self._fresh.wait(timeout_s)
            found = self._picture
        return found

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wanted.wait()
            try:
                self._follow()
                self.broken = ""
            except HoldfastError as error:
                self.broken = str(error) or type(error).__name__
                self._ended.wait(AGAIN_S)
            except Exception as error:  # the pages say so; without this thread they would be old for ever
                _log.exception("the picture of the cluster could not be made")
                self.broken = f"an unexpected error: {error}"
                self._ended.wait(AGAIN_S)
            finally:
                self._close_live()

    def _follow(self) -> None:
        """Follows the cluster until no viewer has asked for REST_S."""
        self._live = live = LiveView(self._door)
        while live.behind and not self._ended.is_set():
            live.turn(LOOK_S)
        due_s = prompt_s = 0.0
        while not self._ended.is_set():
            if self._clock_s() - self._looked_s > REST_S:
                self._wanted.clear()
                if self._clock_s() - self._looked_s > REST_S:
                    self._picture = None
                    self._fresh.clear()
                    return
            if live.turn(LOOK_S):
                self._ended.wait(GATHER_S)
            now_s = self._clock_s()
            if now_s >= due_s or (live.happened and now_s >= prompt_s):
                began_s = time.thread_time()
                self._take(live)
                spent_s = time.thread_time() - began_s
                due_s = now_s + max(LEAST_S, spent_s / SHARE)
                prompt_s = now_s + max(LEAST_S, spent_s / PROMPT_SHARE)

    def _take(self, live: LiveView) -> None:
        self._number += 1
        self._picture = live.picture(int(time.time() * 1000), self._number)
        self._note_rates(self._picture)
        self.broken = live.silence
        self._fresh.set()

    def _note_rates(self, picture: Picture) -> None:
        if picture.time_ms - self._noted_ms < RATE_MS:
            return
        self._noted_ms = picture.time_ms
        known = {job.line.generation: _taken_in(job) for job in picture.jobs}
        self._rates = {
            generation: deque([*self._rates.get(generation, ()), rate], MOST_RATES)
            for generation, rate in known.items()
        }

    def _close_live(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None


def _taken_in(job: LiveJob) -> float:
    sources = {one.operator for one in job.plan.sources}
    return sum(one.records_per_s or 0.0 for one in job.costs.edges if one.direction == "in" and one.edge in sources)
