"""Time for which a job takes nothing in while its state is carried over: by a savepoint, and by updates."""

from __future__ import annotations

import statistics
import time

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast.schemas.savepoints import Start
from holdfast.services.client.savepoints import begin_with, save
from holdfast.services.client.submission import submit
from holdfast.services.client.update import update
from holdfast.services.planning.loader import load
from holdfast.services.view.reader import read_jobs

RATE_PER_S = 2_000
PATIENCE_S = 300.0


def carried(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Figures of a carried state with `scale.state_keys` keys, under load.

    silence: time from the pause until records are read again.
    """
    topic, keys, start = f"bench-{name}", scale.state_keys, int(now_ms())
    cluster.create(topic)
    cluster.preload(topic, keys, keys, lambda _: start)
    raw = load(jobs.unprotected(jobs.COUNT.substitute(tasks=1, name=name, topic=topic)), "bench.yaml").as_plain()
    with cluster.running(jobs.COUNT, topic, name=name) as job:
        job.await_records(keys)
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, keys, start))
        with feeder:
            job.watch(2.0)
            door = cluster.door()
            began = time.monotonic()
            saved = save(door, job.plan, cluster.folder / "saved", PATIENCE_S)
            savepoint_s = time.monotonic() - began
            took, plan = [], job.plan
            for _ in range(max(scale.rounds, 1)):
                done = update(cluster.door(), plan, raw, Start("", ""), PATIENCE_S)
                took.append(done.took_s)
                found = read_jobs(door).plan(done.submitted.generation)
                assert found is not None
                plan = found
            other = {**raw, "name": f"{name}-other"}
            began = time.monotonic()
            begin_with(door, other, cluster.folder / "saved", Start("", ""))
            submit(door, other, PATIENCE_S, lambda _: None)
            from_s = time.monotonic() - began
    return {
        "savepoint_silence_s": round(saved.silence_s or 0.0, 2),
        "savepoint_mib": round(saved.bytes / 2**20, 1),
        "savepoint_s": round(savepoint_s, 2),
        "submit_from_s": round(from_s, 2),
        "savepoint_and_restore_s": round(savepoint_s + from_s, 2),
        "update_silence_s": round(statistics.median(took), 2),
        "max_update_silence_s": round(max(took), 2),
    }
