"""Recent measurements by the copies of one unit, as facts for estimates and costs. Pure.

Source: MECHANISMS A3. Copies report counters about once a second (schemas/costs.py); a reader keeps those of the last
seconds. Durations are the longest of the last samples, speeds the slowest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change, Copy
from holdfast.schemas.costs import Costs
from holdfast.services.recovery.core.adaptive.costing import Work
from holdfast.services.recovery.core.adaptive.estimating import Facts

WINDOW_US = 15_000_000
"""Span of means of usage; the rate of records, and the events since the newest marker, are the maximum in it."""
SPAN_US = 500_000
"""Over which a rate is taken, at least: what copies report a second apart may be read together."""
STALE_US = 5_000_000
"""Age from which a leader's report says nothing of the present."""
OUTLIER = 5
"""Number of samples from which the longest one does not count: a sample that was taken while everything started at once
would stand for all later ones.
"""
MOST_SAMPLES = 64
"""Number of samples of one copy within the window."""
LAST = 16
"""So many of the last different times count: one that was taken while the broker was away is forgotten at last."""
SMALL_BYTES = 64 * 1024
"""A restore of less says what a restore takes besides reading; one of more says how fast it reads."""
LOG_FACTOR = 4
"""A checkpoint log holds at most so many times the state: PROTOCOL 6."""
NEAR = 2
"""Batches that a copy which processes may be behind, whoever asks."""


@dataclass(slots=True)
class Longest:
    """The longest of the last different times, without an outlier. None: none was measured."""

    _last: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))

    def see(self, ms: float | None) -> None:
        if ms is not None and ms not in self._last:
            self._last.append(ms)

    @property
    def ms(self) -> float | None:
        known = sorted(self._last)
        return None if not known else known[-1] if len(known) < OUTLIER else known[-2]

    @property
    def least_ms(self) -> float:
        """The shortest of them; 0: none was measured."""
        return min(self._last, default=0.0)


@dataclass(slots=True)
class Slowest:
    """The lowest of the last different rates, in bytes a millisecond. None: none was measured."""

    _last: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))

    def see(self, size: float, ms: float) -> None:
        if size > 0 and ms > 0 and (rate := size / ms) not in self._last:
            self._last.append(rate)

    @property
    def per_ms(self) -> float | None:
        return min(self._last, default=None)


@dataclass(slots=True)
class _Heard:
    """Reports of one copy within the window, by the time at which they were read."""

    samples: deque[tuple[int, Costs]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))

    def add(self, now_us: int, costs: Costs) -> None:
        self.samples.append((now_us, costs))
        while now_us - self.samples[0][0] > WINDOW_US:
            self.samples.popleft()

    @property
    def last(self) -> Costs:
        return self.samples[-1][1]

    @property
    def first(self) -> Costs:
        return self.samples[0][1]

    @property
    def ms(self) -> float:
        return (self.samples[-1][0] - self.samples[0][0]) / 1000

    def per_ms(self, now: float, before: float) -> float:
        """Increase of a counter in a millisecond; records are counted again after a reload."""
        return max(0.0, now - before) / self.ms if self.ms else 0.0

    @property
    def peak_per_ms(self) -> float:
        """Records processed in a millisecond, when most were: a mean would see a burst when it is over."""
        (since_us, before), found = self.samples[0], 0.0
        for at_us, costs in self.samples:
            if at_us - since_us >= SPAN_US:
                found = max(found, 1000 * (costs.processed - before.processed) / (at_us - since_us))
                since_us, before = at_us, costs
        return found


class Measured:
    """Measurements of one unit by one reader. led_us: since when its present leader leads."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._deploy, self._send, self._receive = Longest(), Longest(), Longest()
        self._open, self._seek = Longest(), Longest()
        self._read, self._written = Slowest(), Slowest()
        self._leader = ("", "")
        self.led_us = 0

    # -- what comes in ------------------------------------------------------------------------------------------------

    def decided(self, change: Change, now_us: int) -> None:
        """A valid change: copies that it does not name are forgotten, and what another leader said is."""
        named = {(copy.worker, copy.incarnation) for copy in change.copies}
        self._heard = {run: heard for run, heard in self._heard.items() if run in named}
        leader = ("", "") if change.committer is None else _run(change.committer)
        if leader != self._leader:
            self._leader, self.led_us = leader, now_us
            self._heard.pop(leader, None)

    def read(self, worker: str, incarnation: str, costs: Costs, now_us: int) -> None:
        """Takes in a report of one copy. Durations and rates count from any copy; the rest as long as the copy is
        named.
        """
        heard = self._heard.setdefault((worker, incarnation), _Heard())
        for copies, one in ((self._deploy, costs.deploy_ms), (self._send, costs.send_ms), (self._open, costs.open_ms)):
            copies.see(one)
        self._receive.see(costs.receive_ms)
        if costs.restore_ms is not None and costs.restore_bytes < SMALL_BYTES:
            self._seek.see(costs.restore_ms)
        elif costs.restore_ms is not None:
            self._read.see(costs.restore_bytes, _without(self._seek.least_ms, costs.restore_ms))
        if heard.samples:
            before = heard.last
            written, took_ms = costs.checkpoint_bytes - before.checkpoint_bytes, costs.capture_ms - before.capture_ms
            if written >= SMALL_BYTES:
                self._written.see(written, took_ms)
        heard.add(now_us, costs)
        if len(self._heard) > LAST:
            del self._heard[next(iter(self._heard))]

    # -- what follows -------------------------------------------------------------------------------------------------

    def facts(
        self, change: Change, now_us: int, *, delivers: bool, alone: bool, interval_ms: float, lag_batches: int = 0
    ) -> Facts | None:
        """None: the present leader has not reported as such, or not lately.

        Args:
            delivers: it may write rows to a sink. alone: see Facts.
            interval_ms: between two batches. lag_batches: that the secondary is behind, if it processes.
        """
        heard = self.leader(change, now_us)
        if heard is None:
            return None
        last, first = heard.last, heard.first
        rate = heard.peak_per_ms
        return Facts(
            checkpoint_bytes=LOG_FACTOR * last.state_bytes,
            read_per_ms=self._read.per_ms or self._written.per_ms or _as_small(self._seek.ms, last),
            seek_ms=self._seek.ms,
            events=max(costs.unsaved for _, costs in heard.samples),
            lag_events=rate * interval_ms * max(lag_batches, NEAR),
            rate_per_ms=rate,
            throughput_per_ms=_throughput(last, first),
            deploy_ms=self._deploy.ms,
            send_ms=self._send.ms if last.sent_bytes else 0.0,
            receive_ms=self._receive.ms,
            open_ms=self._open.ms if delivers else 0.0,
            alone=alone,
        )

    def work(self, change: Change, now_us: int) -> Work | None:
        """Work of the unit, from the same reports as `facts`."""
        heard = self.leader(change, now_us)
        if heard is None:
            return None
        last, first = heard.last, heard.first
        size, count = _inputs(last)
        before, _ = _inputs(first)
        runs = heard.per_ms(last.captures, first.captures)
        mean_ms = self._apply_ms(change) or (last.capture_ms / last.captures if last.captures else None)
        return Work(
            cpu=heard.per_ms(last.cpu_ms, first.cpu_ms),
            applied=None if mean_ms is None else runs * mean_ms,
            in_per_s=1000 * heard.per_ms(size, before),
            out_per_s=1000 * heard.per_ms(last.sent_bytes, first.sent_bytes),
            run_per_s=1000 * heard.per_ms(last.checkpoint_bytes, first.checkpoint_bytes),
            state_bytes=last.state_bytes,
            held_bytes=max(costs.unsaved for _, costs in heard.samples) * size / count if count else 0.0,
        )

    def leader(self, change: Change, now_us: int) -> _Heard | None:
        """Reports of the present leader as the leader; None: nothing, or nothing lately."""
        if change.committer is None:
            return None
        heard = self._heard.get(_run(change.committer))
        if heard is None or not heard.samples or not heard.last.leads:
            return None
        return heard if now_us - heard.samples[-1][0] <= STALE_US else None

    def heard_us(self, change: Change) -> int | None:
        """Time of the last report of the leader that a change names; None: there was none."""
        heard = None if change.committer is None else self._heard.get(_run(change.committer))
        return heard.samples[-1][0] if heard is not None and heard.samples else None

    def _apply_ms(self, change: Change) -> float | None:
        """Mean of a run at a standby that has applied some."""
        others: Iterable[Copy] = (copy for copy in change.copies if not copy.flags.commit)
        found = (self._heard[_run(copy)].last for copy in others if _run(copy) in self._heard)
        return next((costs.apply_ms / costs.applies for costs in found if costs.applies), None)


def _run(copy: Copy) -> tuple[str, str]:
    return copy.worker, copy.incarnation


def _throughput(last: Costs, first: Costs) -> float | None:
    """Records in a millisecond of processing, of late; over the life of the process if nothing came of late."""
    if last.processed > first.processed and last.process_ms > first.process_ms:
        return (last.processed - first.processed) / (last.process_ms - first.process_ms)
    return last.processed / last.process_ms if last.processed and last.process_ms else None


def _without(seek_ms: float, restore_ms: float) -> float:
    """The part of a restore that was reading: a short one took mostly the time that any restore takes, which counts by
    itself.
    """
    return max(restore_ms - seek_ms, restore_ms / 4)


def _as_small(seek_ms: float | None, last: Costs) -> float | None:
    """While the whole checkpoint is small nobody has read much, and what a small restore took holds for all of it."""
    small = LOG_FACTOR * last.state_bytes < SMALL_BYTES and seek_ms is not None
    return SMALL_BYTES / max(seek_ms or 0.0, 1.0) if small else None


def _inputs(costs: Costs) -> tuple[float, float]:
    """Bytes and records taken in."""
    return sum(size for _, size in costs.inputs.values()), sum(records for records, _ in costs.inputs.values())
