"""Turns a record of `jobs.submit` into a plan, or into the list of all problems of the job.

Source: PROTOCOL 1 and 3, JOBS "A job file". services/planning makes the plan; this module reads the facts about the
user's topics that planning needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.schemas import decoders, formats
from holdfast.schemas.decided import Id
from holdfast.schemas.job_operators import Python
from holdfast.schemas.job_settings import FaultTolerance
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan, Problem
from holdfast.schemas.topics import Partition
from holdfast.services.controller.seeded_start import TOO_OLD, seeded, started
from holdfast.services.controller.spark_analysis import Describer
from holdfast.services.decisions.policies import ALIGNED
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import JobRejected, Retriable
from holdfast.services.kernel.plurals import digits
from holdfast.services.log.protocol import At, Log
from holdfast.services.planning import several_topics, sinks, user_topics
from holdfast.services.planning.check import Describe
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan

_log = get_logger()

MOST_ERRORS = 3
"""Number of unexpected errors in a row at the planning of one job after which the job is rejected."""


class Drafter:
    """Makes plans for one cluster.

    Args:
        prefix: of the cluster's topics.
        versions: of the libraries whose output bytes matter.
        allow: modules that Python operators may come from.
        describe: returns the output of an operator for its inputs; None: Spark is asked in a process of its own.
    """

    def __init__(
        self, log: Log, prefix: str, versions: Mapping[str, str], allow: Sequence[str], describe: Describe | None = None
    ) -> None:
        self._log = log
        self._prefix = prefix
        self._versions = versions
        self._allow = allow
        self._describe = describe or Describer(allow)
        self._errors = ("", 0)

    def draft(self, value: bytes, generation: str, id: Id, *, current: bool = True) -> Plan:
        """Returns the plan. Raises JobRejected with every problem, and Retriable when the broker does not answer.

        current: true if every process of the cluster reads a plan that begins with a savepoint, and frames that hold a
            time.
        """
        raw, start = started(_decoded(value))
        if start is not None and not current:
            raise JobRejected([TOO_OLD])
        spec = interpret(raw)
        if problems := [*sinks.unregistered(spec), *(() if current else _too_new(spec))]:
            raise JobRejected(problems)
        topics = self._log.topics(user_topics.named(spec))  # a missing topic rejects the job for good
        each = several_topics.whole(spec, topics, self._prefix).spec
        read = {source.topic for source in each.sources.values() if source.topic is not None}
        # First the ids of the topics, then their offsets: so a topic that is created again in between is detected.
        ids = {name: found.id for name, found in self._log.describe(read & topics.keys()).items()}
        try:
            plan = make_plan(
                spec,
                generation=generation,
                id=id,
                topics=topics,
                first=self._first(each, topics),
                prefix=self._prefix,
                versions=self._versions,
                allow=self._allow,
                describe=self._describe,
                ids=ids,
            )
        except (JobRejected, Retriable):
            raise
        except Exception as error:
            # A job that breaks the planner must not stop other jobs; an error around the planner may pass.
            _log.exception("planning failed", job=spec.name, generation=generation)
            self._errors = generation, self._errors[1] + 1 if self._errors[0] == generation else 1
            if self._errors[1] < MOST_ERRORS:
                raise Retriable(f"the job could not be planned: {error!r}; it is tried again") from error
            hint = "this is a defect of holdfast; its log has the details"
            raise JobRejected([Problem("job", f"cannot be planned: {error!r}", hint)]) from error
        plan = msgspec.structs.replace(plan, warnings=(*plan.warnings, *self._warnings(each, topics)))
        return plan if start is None else seeded(self._log, plan, start)

    def _first(self, spec: JobSpec, topics: Mapping[str, int]) -> dict[str, dict[int, int]]:
        """Returns the offset from which each partition of each source topic is read."""
        starts = {source.topic: source.start for source in spec.sources.values() if source.topic in topics}
        return {topic: self._offsets(topic, topics[topic], _at(start)) for topic, start in starts.items() if topic}

    def _offsets(self, topic: str, partitions: int, at: At) -> dict[int, int]:
        found = self._log.offsets([Partition(topic, index) for index in range(partitions)], at)
        return {partition.index: offset for partition, offset in found.items()}

    def _warnings(self, spec: JobSpec, topics: Mapping[str, int]) -> Iterator[str]:
        """Topics that keep their records for less time than a recovery, or a table, may need."""
        for name, source in spec.sources.items():
            if source.topic in topics and source.topic is not None:
                config = self._log.config(source.topic)
                yield from _short(name, config, spec.replay_horizon_s)
                yield from _unkept(name, config, spec.fault_tolerance)
                if source.table is not None:
                    yield from _forgetful(name, config)


def _too_new(spec: JobSpec) -> Iterator[Problem]:
    """Settings that a process of the previous release, which may still live, would read wrongly."""
    for name, operator in spec.operators.items():
        for setting in formats.CLOCKED_SETTINGS if isinstance(operator, Python) else ():
            if getattr(operator, setting) not in (None, False):
                hint = "submit the job again once every process of the cluster runs this release"
                yield Problem(f"operators.{name}.{setting}", "a process of the release before lives", hint)


def _decoded(value: bytes) -> Any:
    try:
        return decoders.json.decode(value)
    except msgspec.DecodeError as error:
        raise JobRejected([Problem("job", f"is not JSON: {error}", "submit one JSON object")]) from error


def _at(start: str) -> At:
    if start == "earliest":
        return "start"
    if start == "latest":
        return "end"
    moment = datetime.fromisoformat(start)
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _short(source: str, config: Mapping[str, str], horizon_s: float) -> Iterator[str]:
    policy = config.get("cleanup.policy", "")
    kept = {"delete": "retention.ms", "compact": "min.compaction.lag.ms"}
    for way, setting in kept.items():
        ms = int(config.get(setting, "-1"))
        if way in policy and 0 <= ms < horizon_s * 1000:
            yield (
                f"sources.{source}.topic: {setting} is {ms}, less than replay_horizon_s ({digits(horizon_s)} s): "
                "a recovery may find records gone"
            )


def _unkept(source: str, config: Mapping[str, str], tolerance: FaultTolerance) -> Iterator[str]:
    """Warns if a topic keeps its records for less time than a recovery may wait for workers under `source` and
    `adaptive`.
    """
    how = f"under buffering: {tolerance.buffering}"
    if tolerance.buffering == "upstream" or tolerance.checkpoint.policy != ALIGNED:
        return
    wait_s = tolerance.correlated_failure.within_s + tolerance.fail_stop_timeout_s
    path = f"sources.{source}.topic"
    if "delete" not in config.get("cleanup.policy", ""):
        return
    if 0 <= (ms := int(config.get("retention.ms", "-1"))) < wait_s * 1000:
        yield f"{path}: retention.ms is {ms}, and {how} a recovery may wait {digits(wait_s)} s for workers"
    if (size := int(config.get("retention.bytes", "-1"))) >= 0:
        yield (
            f"{path}: retention.bytes is {size}: {how} what comes in {digits(wait_s)} s must fit, or a recovery finds "
            "records gone"
        )


def _forgetful(table: str, config: Mapping[str, str]) -> Iterator[str]:
    """Warns if the topic of a table deletes rows by age, also under `compact,delete`."""
    if "delete" in config.get("cleanup.policy", "") and (ms := int(config.get("retention.ms", "-1"))) >= 0:
        yield (
            f"sources.{table}.topic: retention.ms is {ms}: rows of the table that are not written again are lost when "
            "the job starts later than that; set cleanup.policy to compact"
        )
