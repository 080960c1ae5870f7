"""Work of a copy beside the loop: restoring its image, and loading its isolated code.

Source: PROTOCOL 6.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.topics import Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.dataflow.unit import warm_up
from holdfast.services.kernel.errors import HoldfastError, StateCorrupted
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.state.image import Image
from holdfast.services.kernel.versions import changed
from holdfast.services.log.late.cut_logs import cuts_base
from holdfast.services.log.late.cut_ranges import records_of
from holdfast.services.worker.checkpoint.restore import Rebuilt, further_on, rebuild
from holdfast.services.worker.core.reactions import cause_of
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.isolated.code import IsolatedCode
from holdfast.services.worker.sinks.position import newest_cut

_CHANGED = (
    "the files of {module} are others than those with which this worker started: copies here may compute with either, "
    "and say that they have the former ones. Restart the workers one by one"
)
_log = get_logger()


def load(layout: UnitLayout, code: IsolatedCode) -> list[tuple[str, str]]:
    """Loads every operator and runs a warm-up batch through it. Returns kinds and details of events for people.

    The warm-up only saves time, so an unexpected error in it is returned and does not stop the copy.
    """
    found = [("code-changed", _CHANGED.format(module=one)) for one in changed(modules_of(layout))]
    try:
        warm_up(layout)
    except HoldfastError:
        raise
    except Exception as error:
        _log.warning("a warm-up failed", unit=layout.unit.name, exc_info=error)
        found.append(("warm-up-failed", cause_of(error)))
    code.start()
    return found


def modules_of(layout: UnitLayout) -> set[str]:
    """The modules of users' code in a unit."""
    tasks = (task.operator for task in layout.tasks if task.operator.kind == "python")
    return {operator.python.module for operator in tasks}


def restoring(
    job: JobView, layout: UnitLayout, around: HostServices, image: Image, code: IsolatedCode
) -> Callable[[], Rebuilt]:
    """A call that starts the copy's code and rebuilds the image."""
    name = layout.unit.name
    partition = Partition(job.topics.checkpoints, layout.unit.partition)
    line, back = job.line(name)
    known = job.progress.get(name)
    acked = 0 if known is None or known.line != line else known.durable
    log, cut_log = around.log, Partition(job.topics.cuts, 0)
    inputs = [p for p, units in job.readers.items() if name in units] if job.retains_at_sources else []
    cuts, skipped = cut_log if name in job.reading_units else None, job.skipped.get(partition, ())

    def exists(batch: int) -> bool:
        return batch <= newest_cut(log, cut_log, job.plan.first_batch)

    def restore() -> Rebuilt:
        code.start()
        base = cuts_base(log, job.plan, cuts) if cuts and cuts in job.skipped else None
        return rebuild(log, partition, image, acked, skipped, exists, cuts, around.cpu_ms, base, line, back, inputs)

    return restore


def begun(job: JobView, layout: UnitLayout, around: HostServices, stood_by: Rebuilt) -> Callable[[], Rebuilt]:
    """A call that brings the image of a standby generation to the batch behind which its job begins."""
    partition = Partition(job.topics.checkpoints, layout.unit.partition)
    cuts = Partition(job.topics.cuts, 0) if layout.unit.name in job.reading_units else None

    def begin() -> Rebuilt:
        found = further_on(stood_by, around.log, partition, cuts)
        if found.batch < job.plan.first_batch:
            raise StateCorrupted(
                f"{partition} ends at batch {found.batch}, and its job begins at {job.plan.first_batch}"
            )
        return found

    return begin


def code_of(job: JobView, layout: UnitLayout, around: HostServices) -> IsolatedCode:
    """The processes of the copy's code; none runs yet."""
    cut_log = Partition(job.topics.cuts, 0)
    records = lambda batch: records_of(around.log, job.plan, cut_log, batch)  # noqa: E731
    return IsolatedCode(layout, around.isolation, lambda: around.doing.cold, records)
