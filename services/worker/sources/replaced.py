"""Checks, at the copy that cuts, that the topics of a job are still those that it began to read.

A topic that was deleted and created again has the same name and other records, so its offsets have another meaning.
Source: PROTOCOL 3, docs/decisions/0026.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.schemas.cuts import Replaced, TaskCuts
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.worker.host.topic_watch import TopicWatch

_STOPPED = (
    "topic {topic} of source {source} was deleted and created again (its id was {was}, it is {found}): nothing is read "
    "of the new one{unsure}. `holdfast resume {job} --from earliest` (or latest) continues with it"
)
_UNSURE = ". Cut when nobody had noticed, and perhaps without records of the old one or with some of the new: {batches}"
_GONE = "topic {topic} of source {source} is gone: waiting for it"


class TopicGuard:
    """Compares the present topics with those in the cut log. `sources` holds the topic of each source."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._told: set[tuple[str, str]] = set()
        self._answered = 0
        self._before: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def proposed(self, source: str) -> bool:
        """True if a record that stops the source is on its way."""
        return any(name == source for name, _ in self._told)

    def release(self) -> None:
        self._told.clear()

    def look(self, log: CutLog, watch: TopicWatch, now_ms: float) -> Iterator[Replaced]:
        """Yields records to append for replaced topics. Cuts after the last good answer but one are marked as
        unsure.
        """
        fresh, self._answered = watch.answered != self._answered, watch.answered
        good = True
        for source, topic in self._sources.items():
            known, found = log.known(source), watch.of(topic, now_ms)
            good = good and found is not None and found.id in known[-1:]
            if not known or found is None or found.id in ("", *known):
                continue
            if source not in log.replaced and (source, found.id) not in self._told:
                self._told.add((source, found.id))
                yield Replaced(source, topic, known[-1], found.id, sure=self._sure(log, source))
        if fresh and good:
            self._before = self._now
            self._now = {task: cuts.batch for task, cuts in log.tasks.items()}

    def _sure(self, log: CutLog, source: str) -> dict[str, int]:
        tasks = [task for task in log.tasks if task.rpartition("-")[0] == source]
        return {task: self._before.get(task, 0) for task in tasks}


def stopped(job: str, replaced: Mapping[str, Replaced], tasks: Mapping[str, TaskCuts]) -> str:
    """The reason why no cut is valid, as text for people; empty if no topic was replaced."""
    return "; ".join(
        _STOPPED.format(
            topic=one.topic, source=source, was=one.was, found=one.found, job=job, unsure=_unsure(one, tasks)
        )
        for source, one in replaced.items()
    )


def _unsure(one: Replaced, tasks: Mapping[str, TaskCuts]) -> str:
    stretches = [(task, sure, tasks[task].batch) for task, sure in sorted(one.sure.items()) if task in tasks]
    batches = [f"batches {sure + 1} to {last} of {task}" for task, sure, last in stretches if last > sure]
    return _UNSURE.format(batches=", ".join(batches)) if batches else ""


def gone(sources: Mapping[str, str], watch: TopicWatch) -> str:
    """The missing topics, as text for people."""
    absent = [(source, topic) for source, topic in sources.items() if watch.absent(topic)]
    return "; ".join(_GONE.format(topic=topic, source=source) for source, topic in absent)
