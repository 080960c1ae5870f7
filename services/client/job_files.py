"""Reads a job named in a command: a file of YAML or JSON, or a job in Python (`my_jobs.py:flights`).

Source: JOBS "A job file", "Jobs in Python".
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.client.registry_fields import with_fields
from holdfast.services.kernel.codecs.texts import other_encoding
from holdfast.services.kernel.errors import USAGE, CommandFailed, JobRejected
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.kafka.registry import open_registry
from holdfast.services.log.patience import Patience
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plain_data import read

_loaded: dict[Path, ModuleType] = {}


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job that was read.

    raw: the job as written, with fields added from the registry, as it is submitted.
    """

    name: str
    raw: dict[str, Any]
    spec: JobSpec


def file_of(job: Path) -> Path:
    """The file's path, without the name of a job in it."""
    file, colon, _ = str(job).rpartition(":")
    return Path(file) if colon and file.endswith(".py") else job


def in_python(job: Path) -> bool:
    """True if the name is that of a job in Python."""
    return file_of(job).suffix == ".py"


def read_job(job: Path, patience: Callable[[], Patience] | None = None) -> JobFile:
    """Reads a job. Raises CommandFailed for a file that cannot be read, JobRejected for errors in its content.

    Args:
        patience: given if a Schema Registry may be asked for fields that the job leaves out; None: they stay out.
    """
    raw = _in_module(job).as_written() if in_python(job) else read(_text(job), str(job))
    if patience is not None:
        raw = with_fields(raw, open_registry, patience)
    return JobFile(str(job), raw, interpret(raw, str(job)))


def _text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}", "give the path of a job file", USAGE) from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        if encoding := other_encoding(content):
            hint = f"convert it: iconv -f {encoding} -t UTF-8"
            raise CommandFailed(f"cannot read {file}: it is {encoding}, not UTF-8", hint, USAGE) from None
        if b"\0" in content:
            raise CommandFailed(f"cannot read {file}: it is no text", "give the path of a job file", USAGE) from None
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandFailed(f"cannot read {file}: line {line} is not UTF-8", "save it as UTF-8", USAGE) from None


def _in_module(job: Path) -> JobSpec:
    file = file_of(job)
    name = str(job).removeprefix(str(file)).removeprefix(":")
    jobs = _jobs(vars(_module(file)))
    if name in jobs:
        return jobs[name]
    if name:
        raise CommandFailed(f"{file} has no job '{name}'", suggest(name, jobs) or "it is to be a holdfast.Job", USAGE)
    if len(jobs) != 1:
        hint = f"name one: {file}:{next(iter(jobs), 'flights')}"
        raise CommandFailed(f"{file} has {', '.join(jobs) if jobs else 'no job'}", hint, USAGE)
    return next(iter(jobs.values()))


def _jobs(names: Mapping[str, Any]) -> dict[str, JobSpec]:
    return {name: value for name, value in names.items() if isinstance(value, JobSpec)}


def _module(file: Path) -> ModuleType:
    """The file as a module of its name, by which the job also names its operators.

    Raises:
        JobRejected: errors of a job, with the line that makes it, or of the file.
    """
    _text(file)
    path = file.resolve()
    if path in _loaded:
        return _loaded[path]
    for folder in (str(path.parent), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    former = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        found.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(path.stem)
        if former is not None:
            sys.modules[path.stem] = former
        if not isinstance(error, Exception | SystemExit):
            raise
        raise JobRejected(_problems(file, path, error)) from error
    _loaded[path] = module
    return module


def _problems(file: Path, path: Path, error: BaseException) -> list[Problem]:
    """Problems of the error; each begins with the file and the line that raised it."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return [Problem(f"{file}:{error.lineno}", f"not Python: {error.msg}")]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    at = f"{file}:{lines[-1]}" if lines else str(file)
    if isinstance(error, JobRejected):
        return [Problem(f"{at}: {one.path}", one.message, one.hint) for one in error.problems]
    return [Problem(at, f"{type(error).__name__}: {error}")]
