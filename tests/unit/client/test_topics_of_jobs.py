"""Topics that `submit --create-topics` creates are as the job reads them."""

from __future__ import annotations

from holdfast.services.client.planned_job import missing_topics
from holdfast.services.planning.loader import load

JOB = """
name: job
sources:
  orders: {topic: orders, fields: {id: int, user: string}, parallelism: 2}
  users: {topic: users, fields: {user: string, name: string}, table: [user]}
operators:
  named: {join: {left: orders, right: users, on: [user]}}
queries:
  q: {input: named, sink: {topic: out}}
"""


def test_a_tables_topic_is_compacted_and_no_other_is() -> None:
    made = missing_topics(load(JOB, "job.yaml"), {"out": 1}, "p", [], None)
    assert {one.name: (one.partitions, one.config) for one in made} == {
        "orders": (2, {}),
        "users": (1, {"cleanup.policy": "compact"}),
    }
