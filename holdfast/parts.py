"""The parts of a job in Python: one function for each model of the job file, with the model's settings.

A function is called as its model, in small letters: `source` makes a Source, `join_sides` a JoinSides. Part for part, a
job in Python is the job file: the settings, their defaults and their limits are those of schemas/job*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError

from holdfast.schemas import job_operators, job_settings, jobs
from holdfast.schemas.job_part import JobPart
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.conversion import function_name
from holdfast.services.planning.loader import part_problems

P = ParamSpec("P")
Made = TypeVar("Made")
_HOMES = (jobs, job_operators, job_settings)


def _maker(part: Callable[P, Made]) -> Callable[P, Made]:
    """A model as a function that raises JobRejected, in plain words, for what cannot be a part of a job."""
    name = function_name(part)  # type: ignore[arg-type]

    def make(*args: P.args, **kwargs: P.kwargs) -> Made:
        try:
            return part(*args, **kwargs)
        except ValidationError as error:
            raise JobRejected(part_problems(part, name, error)) from None  # type: ignore[arg-type]

    make.__doc__, make.__name__, make.__qualname__ = part.__doc__, name, name
    make.__signature__ = _signature(part)  # type: ignore[attr-defined, arg-type]
    return make


def _signature(part: type[JobPart]) -> Signature:
    """The settings, for help and notebooks: a model has none before its first use."""
    return Signature(
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if setting.is_required() else setting.get_default(),
                annotation=setting.annotation,
            )
            for name, setting in part.model_fields.items()
        ]
    )


source = _maker(jobs.Source)
csv_options = _maker(jobs.CsvOptions)
query = _maker(jobs.Query)
sink = _maker(jobs.Sink)

filter = _maker(job_operators.Filter)
select = _maker(job_operators.Select)
aggregate = _maker(job_operators.Aggregate)
window = _maker(job_operators.Window)
join = _maker(job_operators.Join)
join_sides = _maker(job_operators.JoinSides)
asof_join = _maker(job_operators.AsOfJoin)
asof_sides = _maker(job_operators.AsOfSides)
top = _maker(job_operators.Top)
ranking = _maker(job_operators.Ranking)
union = _maker(job_operators.Union)
unnest = _maker(job_operators.Unnest)
list_items = _maker(job_operators.ListItems)
dedup = _maker(job_operators.Dedup)
within = _maker(job_operators.Within)
pace = _maker(job_operators.Pace)
every = _maker(job_operators.Every)
python = _maker(job_operators.Python)
asking = _maker(job_operators.Asking)
output = _maker(job_operators.Output)
spark = _maker(job_operators.Spark)
spark_sql = _maker(job_operators.SparkSql)
sql = _maker(job_operators.Sql)

fault_tolerance = _maker(job_settings.FaultTolerance)
scheme_settings = _maker(job_settings.SchemeSettings)
checkpoint_settings = _maker(job_settings.CheckpointSettings)
hybrid_settings = _maker(job_settings.HybridSettings)
weights = _maker(job_settings.Weights)
correlated_failure = _maker(job_settings.CorrelatedFailure)
placement = _maker(job_settings.Placement)


def renamed(type: str, name: str) -> jobs.Renamed:
    """A field that has another name in the record. type: as of any field; name: in the record."""
    return jobs.Renamed.model_validate({"type": type, "from": name})


def metadata(type: str, metadata: str) -> jobs.Metadata:
    """A field that is metadata of the record. type: as of any field; metadata: such as key, or header.NAME."""
    return jobs.Metadata(type=type, metadata=metadata)


def models() -> Iterator[type[JobPart]]:
    """Every model that a job is made of."""
    for home in _HOMES:
        for value in vars(home).values():
            if isinstance(value, type) and issubclass(value, JobPart) and value.__module__ == home.__name__:
                yield value


def __getattr__(name: str) -> Any:
    """A model that has no line above yet is a function, too; editors do not know its settings."""
    for part in models():
        if function_name(part) == name:
            return _maker(part)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
