"""Deliberate bugs of jobs of which only the sources retain what was sent: docs/decisions/0112."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from holdfast.schemas.checkpoints import Marker, Position
from holdfast.services.decisions.buffering import rolls_back
from holdfast.services.recovery.core.job.incidents import Incidents, _Job
from holdfast.services.worker.checkpoint import restore
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.host import job
from holdfast.services.worker.unit.checkpoints.held_checkpoints import HeldCheckpoints
from holdfast.services.worker.unit.turns.progress_publisher import ProgressPublisher


def trimmed_to_what_was_processed() -> AbstractContextManager[object]:
    """Once consumed, as the paper says: a standby, a move or a rebuild begins at the newest marker, behind that."""

    def newest(self: ProgressPublisher, marker: Marker) -> tuple[Position, ...]:
        return tuple(self._processing.intake.inputs.positions()) if self._job.only_sources_retain else ()

    return mock.patch.object(ProgressPublisher, "_newest", newest)


def trimmed_whatever_has_failed() -> AbstractContextManager[object]:
    """Also in an incident, and before a global checkpoint is complete on the newest line."""
    return mock.patch.object(job, "only_sources_retain", rolls_back)


@contextmanager
def senders_not_taken_along() -> Iterator[None]:
    """Nobody goes back but what has failed."""
    with (
        mock.patch.object(Incidents, "joins", return_value=0),
        mock.patch.object(_Job, "joined", return_value=True),
    ):
        yield


def asked_to_go_back_alone() -> AbstractContextManager[object]:
    """A unit of which a user wants it goes back without what sends to it."""
    return mock.patch.object(Incidents, "above", return_value=[])


def ended_at_its_last_marker() -> AbstractContextManager[object]:
    """A unit has ended once its last marker is valid, though a unit below may go back to before it."""
    return mock.patch.object(HeldCheckpoints, "over", lambda self, marker: marker.ended)


def read_from_its_marker_on_a_new_line() -> AbstractContextManager[object]:
    """A copy that begins a line reads its inputs from where its marker says, also where they begin behind that."""

    def rebuilt(*fields: Any) -> Rebuilt:
        return Rebuilt(*fields[:-1])

    return mock.patch.object(restore, "Rebuilt", rebuilt)
