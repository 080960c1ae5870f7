"""Doctor: the requirements of a cluster on this machine, each checked by itself, with advice if it is not met."""

from __future__ import annotations

import platform
import re
import resource
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.kafka.login import Login
from holdfast.services.log.kafka.reach import reach
from holdfast.services.node.machine import ports
from holdfast.services.node.machine.artifacts import faults, read_set
from holdfast.services.node.machine.disk import shortage
from holdfast.services.node.machine.java import JavaMissing, find_java
from holdfast.services.node.settings import Settings, unknown_variables
from holdfast.services.planning import spark_installation

GIB = 1024**3
OLDEST, NEWEST = (3, 11), (3, 14)
"""Versions of Python that holdfast runs on, as pyproject.toml names them."""
KAFKA_TIMEOUT_S = 5.0


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check.

    name: the requirement.
    found: the present state.
    advice: the fix; empty if the requirement is met.
    """

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


Check = Callable[[Settings], Finding]


def examine(settings: Settings) -> list[Finding]:
    """All checks in the order in which a person would mend things; none changes anything."""
    return [check(settings) for check in checks(settings)]


def checks(settings: Settings) -> Sequence[Check]:
    """Java, the broker's jars and its ports only matter where Kafka is embedded."""
    kafka: tuple[Check, ...] = (kafka_answers,) if settings.kafka else (java, broker_jars, kafka_ports)
    return (python, *kafka, spark, disk, open_files, memory, variables)


def python(_: Settings) -> Finding:
    found = f"Python {platform.python_version()} at {sys.executable}"
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return Finding("Python", Verdict.OK, found)
    versions = " to ".join(f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    return Finding("Python", Verdict.FAIL, found, f"holdfast runs on Python {versions}: install it with one of these")


def java(_: Settings) -> Finding:
    try:
        found = find_java()
    except JavaMissing as missing:
        return Finding("Java", Verdict.FAIL, "no Java 17 or newer", str(missing))
    return Finding("Java", Verdict.OK, f"Java {found.version} at {found.path}")


def broker_jars(_: Settings) -> Finding:
    wanted = read_set("kafka")
    wrong = faults(wanted, wanted.directory)
    if not wrong:
        return Finding("broker's jars", Verdict.OK, f"{len(wanted.sums)} in {wanted.directory}, sums as recorded")
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Finding("broker's jars", Verdict.FAIL, wrong[0] + more, "`holdfast up` fetches them again")


def spark(_: Settings) -> Finding:
    """Checks the requirements of jobs with Spark operators."""
    if absent := spark_installation.missing():
        return Finding("Spark", Verdict.WARN, absent, f"for jobs with Spark operators: {spark_installation.COMMAND}")
    try:
        find_java()
    except JavaMissing as missing:
        return Finding("Spark", Verdict.WARN, "no Java 17 or newer, which spark operators need", str(missing))
    wanted = read_set("spark")
    if wrong := faults(wanted, wanted.directory):
        return Finding("Spark", Verdict.WARN, f"its Kafka connector: {wrong[0]}", "the first job on Spark fetches it")
    return Finding("Spark", Verdict.OK, f"pyspark {version('pyspark')}, {len(wanted.sums)} jars of its Kafka connector")


def kafka_ports(settings: Settings) -> Finding:
    port = settings.kafka_port
    if port == 0:
        return Finding("Kafka's ports", Verdict.OK, f"{ports.choose_pair()} and the next are free, any will do")
    taken = [str(one) for one in (port, port + 1) if not ports.is_free(one)]
    if not taken:
        return Finding("Kafka's ports", Verdict.OK, f"{port} and {port + 1} are free")
    advice = (
        "this is as it should be if the cluster is up; else free them or set HOLDFAST_KAFKA_PORT to another or to 0"
    )
    return Finding("Kafka's ports", Verdict.WARN, f"{' and '.join(taken)} in use", advice)


def kafka_answers(settings: Settings) -> Finding:
    servers = settings.kafka or ""
    advice = "check HOLDFAST_KAFKA, the network, and HOLDFAST_KAFKA_CLIENT_* if the cluster wants TLS or a login"
    try:
        doubt = reach(servers, advice)
    except CommandFailed as unreached:
        return Finding("Kafka", Verdict.FAIL, unreached.message, advice)
    login, client = Login(servers, client_settings()), None
    try:
        own: Any = {"bootstrap.servers": servers, "log_level": 0, "error_cb": login.happened, **client_settings()}
        client = AdminClient(own)
        brokers = client.list_topics(timeout=KAFKA_TIMEOUT_S).brokers
    except KafkaException as error:
        if client is not None:
            client.poll(0)
        refused = login.refused()
        found = doubt or f"{servers}: {error.args[0].str()}" if refused is None else str(refused)
        return Finding("Kafka", Verdict.FAIL, found, advice)
    wanted = settings.replication_factor
    if len(brokers) < wanted:
        advice = f"start more brokers or set HOLDFAST_REPLICATION_FACTOR to {len(brokers)}"
        return Finding(
            "Kafka",
            Verdict.FAIL,
            f"{plural(len(brokers), 'broker')} for {plural(wanted, 'replica')} of each topic",
            advice,
        )
    return Finding("Kafka", Verdict.OK, f"{plural(len(brokers), 'broker')} behind {servers}")


def disk(settings: Settings) -> Finding:
    home = settings.home.absolute()
    existing = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(existing).free / GIB
    advice = f"free some, or set HOLDFAST_HOME to another disk than that of {home}"
    if short := shortage(existing):
        return Finding("disk space", Verdict.FAIL, short, f"{advice}; a cluster there continues once there is room")
    return _at_least("disk space", free, "GiB free", warn_below=5, fail_below=1, advice=advice)


def open_files(_: Settings) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = float("inf") if soft == resource.RLIM_INFINITY else soft
    advice = f"raise it with `ulimit -n 65536` (hard limit {'none' if hard == resource.RLIM_INFINITY else hard})"
    return _at_least("open files", limit, "allowed to a process", warn_below=4096, fail_below=1024, advice=advice)


def memory(_: Settings) -> Finding:
    advice = "Kafka takes 0.5 GiB, a worker 0.3: end something, or start fewer workers"
    return _at_least("memory", _available_bytes() / GIB, "GiB available", warn_below=3, fail_below=1, advice=advice)


def variables(_: Settings) -> Finding:
    unknown = unknown_variables()
    if not unknown:
        return Finding("HOLDFAST_* variables", Verdict.OK, "all known")
    meant = [f"{name} (did you mean {other}?)" if other else name for name, other in unknown.items()]
    advice = "`holdfast settings` lists the ones there are"
    return Finding("HOLDFAST_* variables", Verdict.WARN, "nothing reads " + ", ".join(meant), advice)


def _at_least(name: str, amount: float, unit: str, *, warn_below: float, fail_below: float, advice: str) -> Finding:
    verdict = Verdict.FAIL if amount < fail_below else Verdict.WARN if amount < warn_below else Verdict.OK
    shown = f"{amount:,.1f}" if amount < 100 else f"{amount:,.0f}"
    return Finding(name, verdict, f"{shown} {unit}", "" if verdict is Verdict.OK else advice)


def _available_bytes() -> float:
    """Available memory of the machine, or the container's limit if that is less; unlimited where neither is known."""
    left = [float("inf")]
    meminfo, limit = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
    if meminfo.exists() and (found := re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())):
        left.append(int(found[1]) * 1024)
    if limit.exists() and (allowed := limit.read_text().strip()) != "max":
        left.append(int(allowed))
    return min(left)
