"""Deliberate bugs of checkpoints: what is captured, applied and restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from msgspec import structs

from holdfast.schemas.checkpoints import Anchor, Entry, Marker, unpack
from holdfast.services.decisions.checkpoint_log import CheckpointLog, Run
from holdfast.services.kernel.state.keyed import StateTable
from holdfast.services.worker.checkpoint import restore
from holdfast.services.worker.checkpoint.applier import Applier
from holdfast.services.worker.checkpoint.parts import Parts
from holdfast.services.worker.sinks.delivery import Delivery
from holdfast.services.worker.unit.outputs.outbox import Outbox
from tests.simulation.mutants.bug import method
from tests.simulation.mutants.strangers import any_anchor_believed


@method(CheckpointLog, "_marker")
def older_runs_valid(true: Any, self: CheckpointLog, offset: int, marker: Marker) -> Run | None:
    """prev counts, but not the batch; and without prev anything goes."""
    self.last_b = marker.b - 1
    self.last_id = marker.prev
    run: Run | None = true(self, offset, marker)
    return run


@method(CheckpointLog, "_marker")
def parts_counted_whatever_came_between(true: Any, self: CheckpointLog, offset: int, marker: Marker) -> Run | None:
    """A run is valid with the parts that are left of it, and prev does not count."""
    if marker.b <= self.last_b:
        return None
    self.last_id = marker.prev
    kept = [part for _, part in self._pending.get(marker.id, [])]
    self._pending[marker.id] = [(offset, structs.replace(part, index=i)) for i, part in enumerate(kept)]
    run: Run | None = true(self, offset, structs.replace(marker, parts=len(kept)))
    return run


@method(CheckpointLog, "_marker")
def parts_of_two_copies_mixed(true: Any, self: CheckpointLog, offset: int, marker: Marker) -> Run | None:
    """The parts before a marker are its own, also those of another author."""
    others = [part for id, parts in self._pending.items() if id != marker.id for _, part in parts]
    run: Run | None = true(self, offset, marker)
    return None if run is None else replace(run, parts=(*run.parts, *others))


@method(Outbox, "acknowledged")
def marker_before_frames(true: Any, self: Outbox, processed: int) -> int:
    """A marker does not wait for its frames to be acknowledged."""
    return processed


@method(Delivery, "committed")
def marker_before_transactions(true: Any, self: Delivery, processed: int) -> int:
    """A marker does not wait for its rows to be committed."""
    return processed


@method(StateTable, "capture")
def capture_sees_later_values(true: Any, self: StateTable) -> Mapping[bytes, Any]:
    frozen = true(self)
    table = self

    class Later(dict[bytes, Any]):
        def items(self) -> Any:
            return ((key, table._values.get(key)) for key in list(self))

    return Later(frozen)


@method(StateTable, "thaw")
def refused_run_counts(true: Any, self: StateTable) -> None:
    """Dirty entries are forgotten although their marker is not valid."""
    self._frozen = {}


@method(Parts, "_part")
def lost_sweep_slice(true: Any, self: Parts, entries: list[Entry], sweep: bool) -> int:
    """Does not write the entries of a slice, but counts them as written."""
    return 0 if sweep else int(true(self, entries, sweep))


@method(Applier, "_piece")
def any_run_applied(true: Any, self: Applier, batch: int, suspended: bool) -> None:
    """A run that does not fit the image is applied anyway.

    Nothing can come of this alone: a copy takes every valid run in the order of the log, and a run's `a` is its
    author's image, which is no newer than the last valid marker. That no run is missed is the second rule: a reader
    that finds its position trimmed away starts over (`any_run_applied_though_one_was_missed` leaves out both).
    """
    self._image.batch = max(self._image.batch, self._runs[0].marker.a)
    true(self, batch, suspended)


@contextmanager
def any_run_applied_though_one_was_missed() -> Iterator[None]:
    """Every second run of another copy is not read, and the next run is applied anyway."""
    true = Applier.add

    def add(self: Applier, run: Run) -> None:
        if not run.marker.id.counter % 2:
            true(self, run)

    with any_run_applied(), mock.patch.object(Applier, "add", add):
        yield


@method(Applier, "_apply_delta")
def deletions_not_applied(true: Any, self: Applier, run: Run) -> Iterator[None]:
    for part in run.parts:
        if not part.sweep:
            self._image.apply([entry for entry in unpack(part.entries) if entry[1] is not None])
    yield


@method(Applier, "finish")
def run_left_half_applied(true: Any, self: Applier, batch: int) -> None:
    """A copy that is activated does not finish what it was applying."""
    self._runs.clear()
    self._applying = None


@method(CheckpointLog, "anchor")
def _anchor_at_the_last_marker(true: Any, self: CheckpointLog) -> Anchor | None:
    """The anchor is the last run, and not the last complete sweep."""
    return None if self.last is None or self.base is None else Anchor(self.base + 3, self.last_id, self.last_b)


@method(restore, "restore")
def restore_from_the_last_run(true: Any, records: Any, line: int = 0, at: int = 0) -> Any:
    """Only the newest run is applied."""
    log, runs = true(records, line, at)
    return log, iter(list(runs)[-1:])


@contextmanager
def trim_to_the_last_marker() -> Iterator[None]:
    """The anchor is the last run, and not the last complete sweep; and it is believed, against the fold."""
    with _anchor_at_the_last_marker(), any_anchor_believed():
        yield
