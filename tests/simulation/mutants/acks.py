"""Deliberate bugs of acks and trims."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from holdfast.services.worker.unit.checkpoints import trimmer
from holdfast.services.worker.unit.turns.progress_publisher import ProgressPublisher
from tests.simulation.mutants.bug import method


@method(trimmer, "acknowledged")
def trimmed_one_too_far(true: Any, partition: Any, readers: Any, progress: Any, batch: int) -> int:
    upto = int(true(partition, readers, progress, batch))
    return upto + 1 if upto else upto


@method(trimmer, "acknowledged")
def trimmed_for_the_fastest(true: Any, partition: Any, readers: Any, progress: Any, batch: int) -> int:
    """To the maximum of what the readers need."""
    return max((int(true(partition, [reader], progress, batch)) for reader in readers), default=0)


@method(ProgressPublisher, "progress")
def ack_without_a_marker(true: Any, self: ProgressPublisher) -> Any:
    """Acknowledges what is processed."""
    done = self._processing
    return structs.replace(true(self), acked=done.batch, positions=tuple(done.intake.inputs.positions()))
