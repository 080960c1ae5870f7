"""Splits a sink with several topics: each topic becomes a query of its own, behind a filter for its rows.

So transactions, positions, replays, rights and lineage still have one topic for each sink. A check before the filters
dead-letters a row whose topic is not on the list. Source: JOBS "queries", docs/decisions/0207.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.schemas.job_operators import Filter
from holdfast.schemas.jobs import JobSpec, Query
from holdfast.schemas.plans import Problem
from holdfast.services.planning.several_topics import Whole

MAX_TOPICS = 100
_MOST_LETTERS = 30
"""Most characters of a query's name, and of a topic's name, in the names of the parts."""


def whole(spec: JobSpec) -> Whole:
    """The job with a query for each topic of a sink with several topics."""
    if not any(query.sink is not None and query.sink.topics for query in spec.queries.values()):
        return Whole(spec, {})
    operators, queries, written = dict(spec.operators), dict[str, Query](), dict[str, str]()
    problems, placed = list[Problem](), [list(unit) for unit in spec.placement.units]
    for name, query in spec.queries.items():
        if query.sink is None or not query.sink.topics:
            queries[name] = query
            continue
        path, sink = f"queries.{name}.sink", query.sink
        problems += _problems(path, sink.topics or [])
        topics = list(dict.fromkeys(sink.topics or []))[:MAX_TOPICS]
        check = checked(name)
        made = names(name, topics)
        if taken := next((one for one in (check, *made.values()) if one in operators or one in spec.sources), None):
            problems.append(Problem(path, f"its topics are operators of their own, and {taken} is taken", "rename it"))
            continue
        by = sink.topic_by or ""
        operators[check] = Filter(filter=by, one_of=topics, input=query.input, parallelism=None)
        written[f"operators.{check}.filter"] = f"{path}.topic_by"
        written[f"operators.{check}.input"] = f"queries.{name}.input"
        for topic, one in made.items():
            text = topic.replace("'", "''")
            operators[one] = Filter(filter=f"({by}) = '{text}'", input=check, parallelism=None)
            alone = sink.model_copy(update={"topic": topic, "topics": None, "topic_by": None})
            queries[one] = query.model_copy(update={"input": one, "sink": alone})
            at = (sink.topics or []).index(topic)
            written |= {f"queries.{one}.sink.topic": f"{path}.topics[{at}]", f"queries.{one}": f"queries.{name}"}
            written |= {f"operators.{one}.{part}": f"{path}.topic_by" for part in ("filter", "input")}
        placed = [[*unit, *([check, *made.values()] if query.input in unit else [])] for unit in placed]
    parts = {
        "operators": operators,
        "queries": queries,
        "placement": spec.placement.model_copy(update={"units": placed}),
    }
    return Whole(spec.model_copy(update=parts), written, tuple(problems))


def checked(query: str) -> str:
    """The name of the operator that checks that the rows of a query name topics on its list."""
    return f"{query[:_MOST_LETTERS]}-topics"


def names(query: str, topics: list[str]) -> dict[str, str]:
    """The name of the query of each topic: the name of the written query, and the characters of the topic that a name
    may have."""
    found = dict[str, str]()
    for number, topic in enumerate(topics, 1):
        plain = re.sub(r"[^a-z0-9_-]+", "-", topic.lower()).strip("-")[:_MOST_LETTERS] or f"topic{number}"
        name = f"{query[:_MOST_LETTERS]}-{plain}"
        found[topic] = name if name not in found.values() else f"{query[:_MOST_LETTERS]}-topic{number}"
    return found


def _problems(path: str, topics: list[str]) -> Iterator[Problem]:
    for at, topic in enumerate(topics):
        if topic in topics[:at]:
            yield Problem(f"{path}.topics[{at}]", f"'{topic}' is named twice", "name it once")
    if len(topics) > MAX_TOPICS:
        yield Problem(f"{path}.topics", f"are {len(topics)}, and {MAX_TOPICS} are the most", "fewer topics")
