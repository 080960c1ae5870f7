"""Splits a source with several topics: each topic becomes a source of its own, and their union has the source's name.

So cuts, offsets and replays still have one topic for each source. The plan lists the topics that a job reads, so a
topic created later is not read. Source: JOBS "Sources".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from holdfast.schemas.job_operators import Union
from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.plurals import plural
from holdfast.services.planning.user_topics import sink_topic

MAX_TOPICS = 100
_MOST_LETTERS = 48
"""Most characters of a source's name in the names of its parts."""


class Whole(NamedTuple):
    """A job in which each source has one topic.

    Attributes:
        spec: the job.
        written: the path in the user's file, by the beginning of the path in `spec`.
        problems: problems of the lists of topics.
    """

    spec: JobSpec
    written: dict[str, str]
    problems: tuple[Problem, ...] = ()

    def as_written(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems with the paths of the user's file, each problem once."""
        found = [*self.problems, *(Problem(self._path(one.path), one.message, one.hint) for one in problems)]
        return list(dict.fromkeys(found))

    def _path(self, path: str) -> str:
        for here, there in self.written.items():
            if f"{path}.".startswith(f"{here}."):
                return there + path[len(here) :]
        return path


def whole(spec: JobSpec, present: Collection[str] | None, prefix: str) -> Whole:
    """The job with a source for each topic.

    Args:
        present: topics of the cluster; None if they are unknown, and then a pattern counts as one topic.
        prefix: prefix of the cluster's own topics. No pattern matches such a topic, or a topic that the job writes.
    """
    if not any(source.topics for source in spec.sources.values()):
        return Whole(spec, {})
    written_to = [query.sink.topics for query in spec.queries.values() if query.sink is not None and query.sink.topics]
    own = {sink_topic(spec, query) for query in spec.queries} | {one for some in written_to for one in some}
    others = (
        None if present is None else [one for one in present if one not in own and not one.startswith(f"{prefix}.")]
    )
    sources, operators, written = dict[str, Source](), dict(spec.operators), dict[str, str]()
    together = dict[str, list[str]]()
    problems = list[Problem]()
    for name, source in spec.sources.items():
        path = f"sources.{name}"
        if not source.topics:
            sources[name] = source
            continue
        topics = list(dict.fromkeys(topic for one in source.topics for topic in _matching(one, others)))
        problems += _problems(path, source, topics)
        if len(topics) < 2 or source.table is not None:
            sources[name] = source.model_copy(update={"topic": [*topics, source.topics[0]][0], "topics": None})
            written[f"{path}.topic"] = f"{path}.topics[0]"
            continue
        made = [f"{name[:_MOST_LETTERS]}-topic{index + 1}" for index in range(len(topics[:MAX_TOPICS]))]
        if taken := next((one for one in made if one in spec.sources or one in spec.operators), None):
            problems.append(Problem(path, f"its topics are sources of their own, and {taken} is taken", "rename it"))
        for one, topic in zip(made, topics, strict=False):
            sources[one] = source.model_copy(update={"topic": topic, "topics": None})
            at = next(i for i, text in enumerate(source.topics) if topic in _matching(text, [topic]))
            written |= {f"sources.{one}.topic": f"{path}.topics[{at}]", f"sources.{one}": path}
        operators[name] = Union(union=made, parallelism=None)
        written |= {f"operators.{name}": path}
        together[name] = made
    placed = [[*unit, *(made for name in unit for made in together.get(name, ()))] for unit in spec.placement.units]
    parts = {
        "sources": sources,
        "operators": operators,
        "placement": spec.placement.model_copy(update={"units": placed}),
    }
    return Whole(spec.model_copy(update=parts), written, tuple(problems))


def _matching(text: str, present: Collection[str] | None) -> list[str]:
    return sorted(one for one in present if fnmatchcase(one, text)) if "*" in text and present is not None else [text]


def _problems(path: str, source: Source, topics: Sequence[str]) -> Iterator[Problem]:
    assert source.topics is not None
    if source.table is not None:
        message = "a table is one topic, whose records replace each other in their order"
        yield Problem(f"{path}.topics", message, "topic: one of them; without `table` it is a stream of changes")
    if not topics:
        yield Problem(f"{path}.topics", f"no topic matches {', '.join(source.topics)}", "`*` stands for any letters")
    if len(topics) > MAX_TOPICS:
        yield Problem(
            f"{path}.topics",
            f"match {plural(len(topics), 'topic')}, and {MAX_TOPICS} are the most",
            "a narrower pattern",
        )
