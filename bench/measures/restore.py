"""Time until a unit with much state is back after its worker was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import Followed
from bench.rig.scale import Scale
from holdfast.schemas.events import Event

TRICKLE_PER_S = 100
OTHER_KEYS_PER_S = 100_000
OTHERS_HEAD_START_S = 3.0


def restore(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Measures twice: on an idle worker, and while another job changes 100,000 keys a second on the same worker."""
    topic = f"bench-{name}"
    start = int(now_ms())
    cluster.create(topic)
    cluster.preload(topic, scale.state_keys, scale.state_keys, lambda _: start)
    with cluster.running(jobs.COUNT, topic, name=name) as job:
        job.await_records(scale.state_keys)
        _await_checkpoint(job)
        trickle = Feeder(
            cluster.users_appender("trickle"), topic, TRICKLE_PER_S, lambda i: jobs.record(i, scale.state_keys, start)
        )
        with trickle:
            idle = _killed(cluster, job)
            with _other_job(cluster, f"{topic}-other", f"{name}-other") as other:
                _await_checkpoint(job)
                other.watch(OTHERS_HEAD_START_S)
                busy = _killed(cluster, job)
                other.read(0.1)
    return {f"idle_{figure}": value for figure, value in idle.items()} | {
        f"busy_{figure}": value for figure, value in busy.items()
    }


def _await_checkpoint(job: Followed) -> None:
    """Waits until a marker covers all batches processed now."""
    processed = {name: unit.processed for name, unit in job.units.items()}
    job.until(lambda: all(job.units[name].acked >= batch for name, batch in processed.items()), "no checkpoint")


@contextmanager
def _other_job(cluster: BenchCluster, topic: str, name: str) -> Iterator[Followed]:
    cluster.create(topic)
    with cluster.running(jobs.COUNT, topic, name=name) as job:
        job.await_running()
        feeder = Feeder(
            cluster.users_appender("feeder"),
            topic,
            OTHER_KEYS_PER_S,
            lambda i: jobs.record(i, OTHER_KEYS_PER_S, int(now_ms())),
        )
        with feeder:
            yield job


def _killed(cluster: BenchCluster, job: Followed) -> Figures:
    """Kills the one worker; seconds until the unit is back, by phases: see the event unit-active."""
    job.read(0.1)
    del job.events[:]
    (pid,) = cluster.workers().values()
    killed_ms = now_ms()
    os.kill(pid, signal.SIGKILL)
    unit = job.units_of("sink")[0]
    job.until(lambda: _active(job.events, job.plan.job, unit) is not None, "the unit is not back")
    back = _active(job.events, job.plan.job, unit)
    assert back is not None
    activation_ms, replay_ms = (back.phases_ms[phase] for phase in ("activation", "replay"))
    total_ms = back.time_ms - killed_ms
    return {
        "restore_s": round(activation_ms / 1000, 2),
        "before_it_s": round((total_ms - activation_ms - replay_ms) / 1000, 2),
        "first_batch_s": round(replay_ms / 1000, 2),
        "kill_to_batch_s": round(total_ms / 1000, 2),
    }


def _active(found: list[Event], job: str, unit: str) -> Event | None:
    return next((one for one in found if (one.kind, one.job, one.unit) == ("unit-active", job, unit)), None)
