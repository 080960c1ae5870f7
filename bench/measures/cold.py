"""Cold starts: the time to a first result when nothing runs yet."""

from __future__ import annotations

import time

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms, run_command
from bench.rig.figures import Figures
from bench.rig.scale import Scale

ROWS = 1_000


def cold(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Seconds from `holdfast up` to a job that is admitted, and runs; seconds that `holdfast try` takes."""
    job_file, rows = cluster.folder / "job.yaml", cluster.folder / "rows.ndjson"
    job_file.write_text(jobs.COUNT.substitute(topic="cold", name=name, tasks=1))
    rows.write_bytes(b"\n".join(jobs.record(index, 100, int(now_ms()) + index) for index in range(ROWS)))
    started = time.monotonic()
    run_command("try", str(job_file), "--input", f"events={rows}")
    tried = time.monotonic()
    cluster.start(workers=1)
    up = time.monotonic()
    cluster.create("cold")
    with cluster.running(jobs.COUNT, "cold", name=name) as job:
        admitted = time.monotonic()
        job.await_running()
        runs = time.monotonic()
    return {
        "try_s": round(tried - started, 2),
        "up_s": round(up - tried, 2),
        "up_to_admitted_s": round(admitted - tried, 2),
        "up_to_running_s": round(runs - tried, 2),
    }
