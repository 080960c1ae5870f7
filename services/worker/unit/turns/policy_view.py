"""The view that checkpoint policies have of a copy. Each value is computed when it is read, also between its turns: the
policies read all units of a worker.
"""

from __future__ import annotations

import math

from holdfast.services.worker.checkpoint.policies.sweep import FEW_BATCHES
from holdfast.services.worker.core.checkpoint_run import Phase
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.turns.condition import Condition


class PolicyView:
    """Implements UnitView, which defines each value."""

    def __init__(self, of: Condition, checkpoints: Checkpoints, unit: HostedUnit) -> None:
        self._of = of
        self._checkpoints = checkpoints
        self._job = unit.job
        self._spent = unit.spent
        self._name = unit.name
        self._protection = checkpoints.protection
        self.sinkmost = not any(task.outputs for task in unit.layout.tasks)

    @property
    def policy(self) -> str:
        return self._job.checkpoint.policy

    @property
    def interval_ms(self) -> int:
        return self._job.checkpoint.interval_ms

    @property
    def min_interval_ms(self) -> int:
        return self._job.checkpoint.min_interval_ms

    @property
    def max_interval_ms(self) -> int:
        return self._job.checkpoint.max_interval_ms

    @property
    def merge_ms(self) -> float:
        return self._job.checkpoint.merge_ms

    @property
    def every_batches(self) -> int:
        return self._job.checkpoint.every_batches

    @property
    def swept_ms(self) -> float:
        return self._checkpoints.swept_ms

    @property
    def captured_ms(self) -> float:
        return self._checkpoints.captured_ms

    @property
    def captured_batch(self) -> int:
        return self._checkpoints.captured_batch

    @property
    def batch(self) -> int:
        return self._of.batch

    @property
    def batches(self) -> int:
        return self._of.batch - (0 if self._checkpoints.marker is None else self._checkpoints.marker.b)

    @property
    def rests(self) -> bool:
        return self._of.batch == self._job.rests

    @property
    def sparse(self) -> bool:
        few = self._job.spacing.seldom and self._of.batch - self._checkpoints.swept_batch < FEW_BATCHES
        return few and not self._job.bound.set

    @property
    def still(self) -> bool:
        return self._checkpoints.still and self._checkpoints.marker is not None

    @property
    def changed(self) -> int:
        return self._checkpoints.store.changed

    @property
    def output_trimmed(self) -> bool:
        return self._checkpoints.trimmer.output_trimmed

    @property
    def ended(self) -> bool:
        return self._of.ended

    @property
    def followed(self) -> bool:
        return self._job.followed(self._name)

    @property
    def leads(self) -> bool:
        return self._of.commits

    @property
    def resting(self) -> bool:
        return self._checkpoints.checkpointer.resting and not self._of.undecided

    @property
    def capturing(self) -> bool:
        return self._checkpoints.checkpointer.writer.phase is Phase.ENCODING

    @property
    def confirmed(self) -> bool:
        return self._checkpoints.marker is None or self._protection.confirmed(self._checkpoints.marker.b)

    @property
    def primary(self) -> str:
        return self._protection.primary

    @property
    def backup(self) -> str:
        return self._protection.backup

    @property
    def load(self) -> float:
        return self._protection.load if self.leads else self._protection.led_load

    @property
    def replay_ms(self) -> float:
        return self._protection.replay_ms if self.leads else self._protection.led_replay_ms

    @property
    def gain_ms(self) -> float:
        return self._protection.gain_ms

    @property
    def paste_ms(self) -> float:
        return self._protection.paste_ms(self.capture_ms) if self.leads else self.apply_ms

    @property
    def capture_ms(self) -> float:
        return self._checkpoints.checkpointer.writer.capture_ms

    @property
    def apply_ms(self) -> float:
        return self._checkpoints.checkpointer.applier.apply_ms

    @property
    def waiting(self) -> int:
        return self._checkpoints.checkpointer.applier.waiting

    @property
    def waiting_since_ms(self) -> float:
        applies = self._checkpoints.checkpointer.applies(self._of.batch, suspended=self._of.suspended)
        return self._checkpoints.checkpointer.applier.since_ms if applies else math.inf

    @property
    def data_wait(self) -> bool:
        return self._of.data_wait

    @property
    def recovery_ms(self) -> float:
        """This copy's part of R_u; see schemas/costs.py."""
        if self.leads:
            return self._protection.replay_ms
        mean_ms = self._spent.apply_ms / self._spent.applies if self._spent.applies else 0.0
        return self.waiting * mean_ms if self._of.suspended else 0.0
