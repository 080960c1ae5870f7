"""Deliberate bugs of checkpoint policies. None loses a row: what they break is what a policy promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from holdfast.schemas.assignments import CheckpointPolicy
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.protection.expected import Protected
from holdfast.services.kernel.protection.merged_captures import merged
from holdfast.services.planning import checkpoints
from holdfast.services.worker.checkpoint.policies import aligned, idle, idle_minmax, sweep
from holdfast.services.worker.checkpoint.policies.aligned import Aligned
from holdfast.services.worker.checkpoint.policies.individual import Individual
from holdfast.services.worker.checkpoint.policies.policy import UnitView
from holdfast.services.worker.checkpoint.policies.synchronous import Synchronous
from holdfast.services.worker.checkpoint.policies.whole_worker import WholeWorker
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.unit.turns.policy_view import PolicyView


def aligned_elsewhere() -> AbstractContextManager[object]:
    """A unit captures after batch n + 1, 2n + 1, ... and not after n, 2n, ..."""

    def due(view: UnitView) -> bool:
        return view.batch % view.every_batches == 1 % view.every_batches and view.captured_batch < view.batch

    return mock.patch.object(aligned, "_due", due)


def aligned_without_holding() -> AbstractContextManager[object]:
    """The next batch does not wait for the capture: what is captured then is the state after another one."""
    return mock.patch.object(Aligned, "holds", return_value=False)


def two_captures_at_once() -> AbstractContextManager[object]:
    """A capture begins while another one of the worker is written."""
    return mock.patch.object(PolicyView, "capturing", property(lambda self: False))


def minimum_interval_ignored() -> AbstractContextManager[object]:
    """A unit is captured again as soon as its worker is idle."""
    return mock.patch.object(PolicyView, "min_interval_ms", property(lambda self: 0))


def captured_while_data_wait() -> AbstractContextManager[object]:
    """A worker counts as idle whatever waits."""
    return mock.patch.object(idle, "idle", return_value=True)


def maximum_interval_ignored() -> AbstractContextManager[object]:
    """A unit waits for idle time, or for its backup, for ever."""
    return mock.patch.object(PolicyView, "max_interval_ms", property(lambda self: 10**9))


def confirmation_ignored() -> AbstractContextManager[object]:
    """A unit is in the capture queue again as soon as its run is valid, whether its backup has pasted it or not."""
    return mock.patch.object(PolicyView, "confirmed", property(lambda self: True))


@contextmanager
def newest_paste_first() -> Iterator[None]:
    """Pastes the last message of a sender first."""

    def newest(pastes: Mapping[str, UnitView]) -> dict[str, str]:
        return {one.primary: name for name, one in sorted(pastes.items(), key=lambda item: item[1].waiting_since_ms)}

    with mock.patch.object(idle, "oldest", newest), mock.patch.object(idle_minmax, "oldest", newest):
        yield


def merged_across_backups() -> AbstractContextManager[object]:
    """Units are captured as one wherever their standbys are."""

    def anywhere(units: Mapping[str, Protected], most_ms: Mapping[str, float]) -> Any:
        return merged({name: replace(one, backup="") for name, one in units.items()}, most_ms)

    return mock.patch.object(idle_minmax, "merged", anywhere)


def policy_not_taken_up() -> AbstractContextManager[object]:
    """A worker captures as the plan says, whatever was decided since."""
    return mock.patch.object(JobView, "checkpoint", property(lambda self: self.planned))


def older_policy_counts() -> AbstractContextManager[object]:
    """An answer that was given before counts again when it is there once more."""

    def read(self: Assigned, policy: CheckpointPolicy) -> None:
        self._policies[policy.job_key] = policy

    return mock.patch.object(Assigned, "_read_policy", read)


def policy_of_no_scheme() -> AbstractContextManager[object]:
    """Nobody looks whether a policy works with the schemes of the units."""
    return mock.patch.object(checkpoints, "unfit", return_value="")


def batches_during_a_whole_checkpoint() -> AbstractContextManager[object]:
    """Units of a worker that is checkpointed as one continue while the others are captured."""
    return mock.patch.object(WholeWorker, "holds", return_value=False)


def ticks_of_its_own() -> AbstractContextManager[object]:
    """Under `synchronous` each unit has a timer of its own."""
    return mock.patch.object(Synchronous, "wait_ms", Individual.wait_ms)


def ticks_of_all() -> AbstractContextManager[object]:
    """Under `individual` all units have one timer."""
    return mock.patch.object(Individual, "wait_ms", Synchronous.wait_ms)


def two_captures_a_tick() -> AbstractContextManager[object]:
    """Under `synchronous` the timer ticks twice as often."""
    return mock.patch.object(PolicyView, "interval_ms", property(lambda self: self._job.checkpoint.interval_ms // 2))


def swept_before_trimmed() -> AbstractContextManager[object]:
    """Under `sweep` a unit does not wait for those that read its output."""
    return mock.patch.object(sweep, "PATIENCE", 1)
