"""An outage is noted: the first tentative row comes in the next turns, not with a batch nor after another wait."""

from __future__ import annotations

from holdfast.schemas import assignments, formats
from holdfast.schemas.assignments import Assignment, Change
from holdfast.schemas.outages import Outage
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.dataflow.sink_records import TENTATIVE
from tests.support.memory_cluster import GENERATION, MemoryCluster

INTERVAL_MS, TURNS = 500, 10
"""Between two batches; and turns of the loop, a millisecond each, until the row of the outage must be there."""
JOB = f"""
name: clicks
batch_interval_ms: {INTERVAL_MS}
sources:
  s: {{topic: clicks, fields: {{at: timestamp, page: string}}, event_time: at, unit: ms, parallelism: 2}}
operators:
  counts: {{aggregate: {{n: "count()"}}, key: [page], window: {{size_s: 0.1}}, emit: final, input: s, parallelism: 1}}
  all: {{filter: "n > 0", input: counts, parallelism: 1}}
fault_tolerance: {{default: {{scheme: passive}}}}
queries: {{q: {{input: all, results: tentative, sink: {{topic: out}}}}}}
placement: {{units: [[s], [counts], [all, q]]}}
"""


def live(made: MemoryCluster, until_ms: int) -> None:
    """A record comes to each partition every 50 ms."""
    while made.now_ms < until_ms:
        for partition in (0, 1):
            made.feed("s", [{"at": made.day_ms + made.now_ms, "page": f"p{partition}"}], partition)
        made.turn(50)


def statuses(made: MemoryCluster) -> list[str]:
    found = [dict(message.headers() or ()) for message in made.log.scan(Partition("out", 0))]
    return [headers["status"].decode() for headers in found]


def said(made: MemoryCluster, *outages: Outage, format: int = 0, changes: tuple[Change, ...] = ()) -> None:
    record = Assignment("test", made.now_ms, changes, format=format, outages=outages)
    made._append(Partition(made.cluster.assignments, 0), assignments.encode(record))


def test_the_first_tentative_row_comes_in_the_next_turns_after_the_outage_is_noted() -> None:
    made = MemoryCluster(JOB)
    lives, dies = made.start("lives"), made.start("dies")
    made.place({unit: [dies if unit == "s-1" else lives] for unit in made.units})
    said(made, format=formats.TENTATIVE)
    live(made, 2_600)
    assert "final" in statuses(made)
    made.kill("dies")
    live(made, 4_000)
    assert TENTATIVE not in statuses(made), "nothing is known to be out"
    stood = len(statuses(made))
    said(made, Outage("clicks", GENERATION, "s-1", 1, 1, 3, {"q": 0.5}))
    noted_ms = made.now_ms
    made.until(lambda: len(statuses(made)) > stood)
    assert statuses(made)[stood] == TENTATIVE
    assert made.now_ms - noted_ms <= TURNS, "the units below wait for neither a batch nor their patience"
