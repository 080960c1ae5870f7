"""A job in Python: the model of the job file, with what a program and a notebook want to do with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.schemas.job_part import JobPart
from holdfast.schemas.jobs import JobSpec
from holdfast.services.planning.loader import interpret

if TYPE_CHECKING:
    from holdfast.services.client.frames import Given
    from holdfast.services.client.trials import Tried


class Job(JobSpec):
    """A job: what the job file says, under the same names. `Job(name=..., sources=..., operators=..., queries=...)`.

    `holdfast check my_jobs.py:flights` takes it wherever a command takes a job file. In a notebook a job draws itself.

    Raises:
        JobRejected: with every problem, each with the path that it has in a job file.
    """

    if not TYPE_CHECKING:  # editors show the settings of the model

        def __init__(self, **settings: Any) -> None:
            written = _as_written(settings)
            interpret(written)
            super().__init__(**written)

    def try_(self, inputs: Mapping[str, Given], null: Sequence[str] = ()) -> Tried:
        """Runs the job on these inputs in memory, as `holdfast try` does: the rows of each query as a polars frame.

        Args:
            inputs: by source, a polars frame, the path of a file, or records: mappings, or their bytes.
            null: of csv files, words that stand for null.

        Raises:
            JobRejected: with every problem. LocalRunFailed: the job stopped with an error.
        """
        from holdfast.services.client.trials import attempt  # which computes, and so loads more than a job needs
        from holdfast.services.kernel.operators.python import restrict

        restrict(None)  # another run in this process may have allowed its own modules alone
        return attempt(self, inputs, null)

    def _repr_html_(self) -> str:
        """The job as a picture, for notebooks."""
        from holdfast.services.planning.drawing import svg

        return svg(self)


def _as_written(value: Any) -> Any:
    """Plain data as a job file has it, without the settings that were left out."""
    if isinstance(value, JobPart):
        return value.as_written()
    if isinstance(value, Mapping):
        return {key: _as_written(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(one) for one in value]
    return value
