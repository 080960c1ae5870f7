"""How many frames a partition between units holds: `python -m tests.scenario.frames_held` prints the table of
docs/decisions/0112. Whole workers on a log in memory, batches of 20 ms, a global checkpoint stated every 100 ms.
"""

from __future__ import annotations

from unittest import mock

from holdfast.services.worker.unit.checkpoints import trimmer
from tests.scenario.test_checkpoint_policies import job
from tests.scenario.test_global_checkpoints import Aligned

STEPS, WARM = 400, 150
EVERY_BATCHES = (5, 10, 50)
TRIM_MS = (500, 20)


def held(buffering: str, every: int, trim_ms: int) -> float:
    """On average, over all partitions and the steps after the first ones."""
    made = job("aligned", every_batches=every).replace("tolerance: {", f"tolerance: {{buffering: {buffering}, ")
    with mock.patch.object(trimmer, "OUTPUT_MS", trim_ms):
        cluster, seen = Aligned(count=2 * STEPS, made=made), list[float]()
        for step in range(STEPS // 5):
            cluster.run(5)
            if step >= WARM // 5:
                starts = cluster.starts_of_data()
                ends = cluster.log.offsets(list(starts), "end")
                seen.append(sum(ends[one] - start for one, start in starts.items()) / len(starts))
    return sum(seen) / len(seen)


def main() -> None:
    print("every_batches  trims every  upstream  source")
    for every in EVERY_BATCHES:
        for trim_ms in TRIM_MS:
            upstream, source = (held(buffering, every, trim_ms) for buffering in ("upstream", "source"))
            print(f"{every:13}  {trim_ms:8} ms  {upstream:8.0f}  {source:6.0f}", flush=True)


if __name__ == "__main__":
    main()
