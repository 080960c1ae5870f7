"""Turns the text of a job file into a JobSpec, or reports every problem in plain words.

Source: JOBS "Every error of a job file is reported at once". check.py finds problems that need the whole DAG.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from holdfast.schemas.job_operators import Window
from holdfast.schemas.job_part import JobPart
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning.messages import found, words
from holdfast.services.planning.plain_data import read

Location = tuple[int | str, ...]


def load(text: str, name: str) -> JobSpec:
    """Reads the text of a job file.

    Args:
        name: name of the file, for messages.

    Raises:
        JobRejected: with every problem that the parts show on their own.
    """
    return interpret(read(text, name), name)


def interpret(raw: Any, name: str = "job") -> JobSpec:
    """Turns plain data, such as a record of `jobs.submit`, into a JobSpec. Raises JobRejected."""
    if not isinstance(raw, dict):
        message = f"expected a mapping, found {found(raw)}"
        raise JobRejected([Problem(name, message, "a job has at least name, sources and queries")])
    try:
        return JobSpec.model_validate(raw)
    except ValidationError as error:
        from holdfast.services.planning.further_mistakes import remaining  # that module imports this one

        faults = [details for details in error.errors() if details["type"] not in _ECHOES]
        problems = [_problem(details) for details in faults]
        problems += remaining(raw, [details["loc"] for details in faults])
        raise JobRejected(sorted(problems, key=lambda problem: _order(problem.path))) from None


def part_problems(part: type[JobPart], name: str, error: ValidationError) -> list[Problem]:
    """Problems of a single part of a job. Each path begins with `name`, the name of the part."""
    faults = (details for details in error.errors() if details["type"] not in _ECHOES)
    found = (_problem(details, part) for details in faults)
    return [Problem(f"{name}.{one.path}" if one.path else name, one.message, one.hint) for one in found]


_ECHOES = ("default_factory_not_called",)
"""Types of errors that only follow from another error of the same mapping."""


def _order(path: str) -> int:
    """The position of the path's section in a job file, by which problems are sorted."""
    section = re.split(r"[.\[]", path)[0]
    known = list(JobSpec.model_fields)
    return known.index(section) if section in known else len(known)


def _problem(error: ErrorDetails, root: type[JobPart] = JobSpec) -> Problem:
    message, hint = words(error, root)
    return Problem(_path(error["loc"] + _AT.get(error["type"], ())), message, hint)


_AT: dict[str, Location] = {
    "no_origin": ("topic",),
    "two_origins": ("topics",),
    "no_fields": ("fields",),
    "csv_quote": ("quote",),
    "no_sink_topic": ("topic",),
    "two_sink_topics": ("topics",),
    "two_sinks": ("parquet",),
    "table_and_more": ("sql",),
    "sink_topic_by": ("topic_by",),
    "join_between": ("between",),
    **{f"window_{name}": (name,) for name in Window.model_fields},
}
"""The setting at which an error of a whole mapping is reported, by type of error."""


_EMPTY = "''"
"""The text shown for an empty key."""


_FIELDS = ("type", "renamed", "metadata")
"""Forms of a field, which are steps in pydantic's locations and do not appear in the file."""


def _path(loc: Location) -> str:
    """The path in the file for a location of pydantic. `operators.late.filter.input` of pydantic is
    `operators.late.input` of the file: the third step is the kind."""
    steps = loc[:2] + loc[3:] if loc[0] == "operators" and len(loc) > 2 and loc[2] != "[key]" else loc
    if steps[:1] + steps[2:3] == ("sources", "fields") and len(steps) > 4 and steps[4] in _FIELDS:
        steps = steps[:4] + steps[5:]
    if steps[:1] + steps[2:3] == ("operators", "input") and len(steps) > 3 and steps[3] in ("one", "several"):
        steps = steps[:3] + steps[4:]
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step != "[key]":
            path += f".{step or _EMPTY}" if path else step or _EMPTY
    return path
