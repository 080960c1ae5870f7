"""Recent measurements by the copies of one unit, as facts for estimates and costs. Pure.

Source: MECHANISMS A3. Copies report counters about once a second (schemas/costs.py); a reader keeps the reports of the
last seconds. Durations are the longest of the last samples, speeds the slowest.
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
"""Least span of a rate: reports that copies make a second apart may be read together."""
STALE_US = 5_000_000
"""Age from which a leader's report no longer counts."""
OUTLIER = 5
"""Number of samples from which the longest one does not count: a sample that was taken while everything started at once
would stand for all later ones.
"""
MOST_SAMPLES = 64
"""Number of samples of one copy within the window."""
LAST = 16
"""Number of the last different times that count, so that a sample from an outage of the broker is dropped at last."""
SMALL_BYTES = 64 * 1024
"""Size below which a restore measures the time besides reading, and from which it measures the rate of reading."""
LOG_FACTOR = 4
"""Largest size of a checkpoint log, in sizes of the state: PROTOCOL 6."""
NEAR = 2
"""Number of batches by which a processing copy may be behind at any time."""


@dataclass(slots=True)
class Longest:
    """The longest of the last different times, without an outlier; None if no time was measured."""

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
        """The shortest of the last times; 0 if no time was measured."""
        return min(self._last, default=0.0)


@dataclass(slots=True)
class Slowest:
    """The lowest of the last different rates, in bytes per millisecond; None if no rate was measured."""

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
        """Returns the increase of a counter per millisecond; after a reload, records are counted again."""
        return max(0.0, now - before) / self.ms if self.ms else 0.0

    @property
    def peak_per_ms(self) -> float:
        """The highest rate of processed records per millisecond: a mean would show a burst only after its end."""
        (since_us, before), found = self.samples[0], 0.0
        for at_us, costs in self.samples:
            if at_us - since_us >= SPAN_US:
                found = max(found, 1000 * (costs.processed - before.processed) / (at_us - since_us))
                since_us, before = at_us, costs
        return found


class Measured:
    """Measurements of one unit by one reader."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._deploy = Longest()
        self._send = Longest()
        self._receive = Longest()
        self._open = Longest()
        self._seek = Longest()
        self._read = Slowest()
        self._written = Slowest()
        self._leader = ("", "")

    # -- what comes in ------------------------------------------------------------------------------------------------

    def decided(self, change: Change) -> None:
        """Takes a valid change: drops the reports of copies that it does not name, and of a former leader."""
        named = {(copy.worker, copy.incarnation) for copy in change.copies}
        self._heard = {run: heard for run, heard in self._heard.items() if run in named}
        leader = ("", "") if change.committer is None else _run(change.committer)
        if leader != self._leader:
            self._leader = leader
            self._heard.pop(leader, None)

    def read(self, worker: str, incarnation: str, costs: Costs, now_us: int) -> None:
        """Takes a report of one copy.

        Durations and rates count from any copy; the rest counts as long as the unit's change names the copy.
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
        """Returns the facts of the unit; None if the present leader has not reported as the leader lately.

        Args:
            delivers: true if the unit may write rows to a sink.
            alone: see Facts.
            interval_ms: time between two batches.
            lag_batches: batches by which the secondary is behind, if it processes.
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
        """Returns the reports of the present leader as the leader; None if there is no recent one."""
        if change.committer is None:
            return None
        heard = self._heard.get(_run(change.committer))
        if heard is None or not heard.samples or not heard.last.leads:
            return None
        return heard if now_us - heard.samples[-1][0] <= STALE_US else None

    def heard_us(self, change: Change) -> int | None:
        """Returns the time of the last report of the leader that a change names; None if there was none."""
        heard = None if change.committer is None else self._heard.get(_run(change.committer))
        return heard.samples[-1][0] if heard is not None and heard.samples else None

    def _apply_ms(self, change: Change) -> float | None:
        """Returns the mean time of a run at a standby that has applied some."""
        others: Iterable[Copy] = (copy for copy in change.copies if not copy.flags.commit)
        found = (self._heard[_run(copy)].last for copy in others if _run(copy) in self._heard)
        return next((costs.apply_ms / costs.applies for costs in found if costs.applies), None)


def _run(copy: Copy) -> tuple[str, str]:
    return copy.worker, copy.incarnation


def _throughput(last: Costs, first: Costs) -> float | None:
    """Returns the records processed in a millisecond of processing, within the window; if none, over the process's
    life.
    """
    if last.processed > first.processed and last.process_ms > first.process_ms:
        return (last.processed - first.processed) / (last.process_ms - first.process_ms)
    return last.processed / last.process_ms if last.processed and last.process_ms else None


def _without(seek_ms: float, restore_ms: float) -> float:
    """Returns the part of a restore that was reading; a short restore takes mostly the time of `seek_ms`."""
    return max(restore_ms - seek_ms, restore_ms / 4)


def _as_small(seek_ms: float | None, last: Costs) -> float | None:
    """Returns a rate of reading for a small checkpoint that no copy has measured yet, from the time of a small
    restore.
    """
    small = LOG_FACTOR * last.state_bytes < SMALL_BYTES and seek_ms is not None
    return SMALL_BYTES / max(seek_ms or 0.0, 1.0) if small else None


def _inputs(costs: Costs) -> tuple[float, float]:
    """Returns the bytes and records taken as inputs."""
    return sum(size for _, size in costs.inputs.values()), sum(records for records, _ in costs.inputs.values())
