"""A supervisor in a session of its own, which outlives the command that started it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.node.daemon import Answer
from holdfast.services.node.machine.bytecode import of_children
from holdfast.services.node.machine.cluster_files import Cluster, ClusterFiles
from holdfast.services.node.machine.folders import DATA_SETTING, using
from holdfast.services.node.machine.processes import FAULTS, open_log, service_command, tail
from holdfast.services.node.settings import Settings


def start_detached(settings: Settings, workers: int) -> Cluster:
    """Returns when jobs can be submitted. Raises CommandFailed if the cluster does not start; nothing is left then."""
    files = ClusterFiles(settings.home)
    log = files.logs / "supervisor.log"
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        with using(files.data_dir, DATA_SETTING):
            files.make()
            process = _start(settings, workers, log, writing)
        os.close(writing)
        try:
            answered = pipe.read()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    ended = f"the supervisor ended:\n{tail(log, 15)}"
    answer = msgspec.json.decode(answered, type=Answer) if answered else Answer(error=ended)
    if answer.cluster is None:
        process.wait()
        raise CommandFailed(answer.error, f"see {log.parent}, or ask `holdfast doctor`")
    return answer.cluster


def _start(settings: Settings, workers: int, log: Path, writing: int) -> subprocess.Popen[bytes]:
    arguments = ["--workers", str(workers), "--answer", str(writing)]
    command = service_command("holdfast.services.node.daemon", *arguments)
    with open_log(log, settings.log_limits) as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**of_children(), **FAULTS, **_environment(settings)},
            start_new_session=True,
            pass_fds=(writing,),
        )


def _environment(settings: Settings) -> dict[str, str]:
    """Options of the command as the variables that the supervisor reads."""
    return {
        "HOLDFAST_HOME": str(settings.home),
        "HOLDFAST_KAFKA": settings.kafka or "",
        "HOLDFAST_KAFKA_PORT": str(settings.kafka_port),
        "HOLDFAST_BROKERS": str(settings.brokers or ""),
        "HOLDFAST_RECOVERIES": str(settings.recoveries),
    }
