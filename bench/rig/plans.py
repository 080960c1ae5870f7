"""Plans of jobs that are measured without a cluster."""

from __future__ import annotations

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics
from holdfast.services.planning.loader import load
from holdfast.services.planning.plan import make_plan


def planned(text: str, file: str, generation: str, topics: ClusterTopics) -> Plan:
    """The plan of a job file, with a partition of its own for each source task.

    file: name of the file, for messages.
    """
    return make_plan(
        load(text, file),
        generation=generation,
        id=Id("bench", 1),
        topics=None,
        first={},
        prefix=topics.prefix,
        versions={},
        allow=["bench"],
    )
