"""What sends to a unit, directly or through others: by tasks, not by operators."""

from __future__ import annotations

from holdfast.services.kernel.plans.layout import below, senders, unit_layouts
from holdfast.services.kernel.plans.upstream import upstream
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB


def test_upstream_is_the_layouts_from_the_other_side() -> None:
    cluster = MemoryCluster(JOB)
    layouts, above = unit_layouts(cluster.plan, cluster.topics), upstream(cluster.plan)
    assert any(above.values())
    for name, units in below(layouts).items():
        assert {unit for unit, found in above.items() if name in found} == units - {name}


def test_every_writer_of_every_partition_has_its_unit() -> None:
    cluster = MemoryCluster(JOB)
    layouts = unit_layouts(cluster.plan, cluster.topics)
    found = senders(layouts)
    for name, layout in layouts.items():
        for task in layout.tasks:
            for output in task.outputs:
                for target in output.targets:
                    assert found[type(next(iter(found)))(output.topic, target)][task.index] == name
