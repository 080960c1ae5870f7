"""Classes stay one idea each: few arguments, methods and attributes, and calls that name what they pass.

An exception names its class, the number that it may reach, and why; one that is no longer needed fails, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SERVICES = Path(__file__).parents[2] / "services"
MOST_ARGUMENTS = 7
MOST_METHODS = 20
MOST_ATTRIBUTES = 15
MOST_POSITIONAL = 4

WIRING = "it wires what the process or copy is made of, each given once at its start"
PORT = "it implements a port, whose methods are small and many"
VIEW = "its methods are questions without effects, one line each"
MACHINE = "state of one protocol, whose steps share it"

Exceptions = Mapping[str, tuple[int, str]]

ARGUMENTS: Exceptions = {
    "client/feed.py:Feed": (9, WIRING),
    "decisions/assigned.py:Assigned": (8, "it begins at each part of a snapshot"),
    "hosting/heartbeats.py:HeartbeatThread": (11, WIRING),
    "kernel/codecs/decoder.py:Decoder": (12, "settings of a source, each a word of the job file"),
    "kernel/codecs/registered.py:RegisteredReader": (8, "settings of a source, each a word of the job file"),
    "kernel/dataflow/inputs.py:Inputs": (8, WIRING),
    "kernel/dataflow/input_partition.py:InputPartition": (11, WIRING),
    "node/machine/processes.py:Child": (8, "whatever a process can be started with, and by whom"),
    "recovery/polled_replica.py:PolledReplica": (8, WIRING),
    "recovery/replica.py:Replica": (15, WIRING),
    "recovery/assignment_snapshots.py:AssignmentSnapshots": (9, WIRING),
    "spark/commits.py:Commits": (8, WIRING),
    "spark/host.py:Host": (8, WIRING),
    "worker/process/loop.py:Worker": (16, WIRING),
    "worker/sinks/position.py:Positions": (8, WIRING),
}

METHODS: Exceptions = {
    "client/in_memory_cluster.py:InMemoryCluster": (25, PORT),
    "controller/core/controller.py:Controller": (40, "each event and command has a method"),
    "decisions/assigned.py:Assigned": (26, VIEW),
    "decisions/cuts.py:CutLog": (25, MACHINE),
    "kernel/dataflow/inputs.py:Inputs": (25, MACHINE),
    "kernel/dataflow/input_partition.py:InputPartition": (32, MACHINE),
    "kernel/expressions/rules.py:_Rules": (25, "each rule of the grammar is a method"),
    "kernel/liveness/detector.py:Detector": (44, VIEW),
    "kernel/state/keyed.py:StateTable": (25, PORT),
    "log/kafka/log.py:KafkaLog": (30, PORT),
    "log/memory.py:MemoryLog": (30, PORT),
    "node/kafka/broker.py:EmbeddedKafka": (31, "steps of a start and a stop"),
    "node/supervisor.py:Supervisor": (30, "each duty of a turn is a method"),
    "planning/sql/planner.py:Planner": (22, "each clause of a query has a method"),
    "recovery/core/known.py:ReplicaView": (30, VIEW),
    "recovery/core/unit/situation.py:Situation": (35, VIEW),
    "spark/copy.py:SparkCopy": (30, "each action of the core is carried out by a method"),
    "view/cluster.py:ClusterView": (37, "each topic's records have a method"),
    "worker/checkpoint/policies/policy.py:UnitView": (35, VIEW),
    "worker/checkpoint/writer.py:LogWriter": (21, MACHINE),
    "worker/host/job.py:JobView": (36, VIEW),
    "worker/process/loop.py:Worker": (27, "each duty of a turn is a method"),
    "worker/sinks/delivery.py:Delivery": (30, MACHINE),
    "worker/sources/cutter.py:Cutter": (30, MACHINE),
    "worker/sources/feed.py:Feed": (30, PORT),
    "worker/sources/user_topic.py:SourceFeed": (40, PORT),
    "worker/unit/inputs/intake.py:Intake": (26, MACHINE),
    "worker/unit/turns/policy_view.py:PolicyView": (36, VIEW),
}

ATTRIBUTES: Exceptions = {
    "hosting/heartbeats.py:HeartbeatThread": (16, WIRING),
    "kernel/dataflow/input_partition.py:InputPartition": (16, MACHINE),
    "kernel/operators/updating_join.py:UpdatingJoin": (16, MACHINE),
    "node/members/members.py:Member": (20, MACHINE),
    "node/supervisor.py:Supervisor": (28, WIRING),
    "planning/plan.py:_Draft": (20, "a plan while it is made"),
    "recovery/core/known.py:ReplicaView": (30, "everything that a replica knows"),
    "recovery/replica.py:Replica": (20, WIRING),
    "spark/copy.py:SparkCopy": (20, MACHINE),
    "spark/host.py:Host": (20, WIRING),
    "worker/process/loop.py:Worker": (25, WIRING),
    "worker/sinks/delivery.py:Delivery": (27, MACHINE),
    "worker/sources/cutter.py:Cutter": (22, MACHINE),
    "worker/sources/user_topic.py:SourceFeed": (20, MACHINE),
    "worker/unit/checkpoints/checkpoints.py:Checkpoints": (20, WIRING),
    "worker/unit/batches/batch_processor.py:BatchProcessor": (17, MACHINE),
    "worker/unit/turns/progress_publisher.py:ProgressPublisher": (17, MACHINE),
    "worker/unit/user_code/raised_errors.py:RaisedErrors": (25, MACHINE),
    "worker/unit/turns/running_copy.py:RunningCopy": (16, WIRING),
}

NEVER_NAMED: Exceptions = {
    "AclBinding": (7, "Kafka's client gives its parameters no names that are a promise"),
    "AclBindingFilter": (7, "Kafka's client gives its parameters no names that are a promise"),
    "Function": (5, "rows of the tables of functions, in the order of a manual's columns"),
    "Table": (5, "columns of a table for people"),
    "Ended": (5, "fields of two classes that stand for each other"),
}
"""Classes whose constructors are called with more positional arguments."""


@cache
def counted() -> list[tuple[str, dict[str, int]]]:
    """Each class with its number for each limit. To parse all files takes a second."""
    return [
        (f"{file.relative_to(SERVICES).as_posix()}:{node.name}", {name: of(node) for name, (of, *_) in LIMITS.items()})
        for file in sorted(SERVICES.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]


def methods(found: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def arguments(found: ast.ClassDef) -> int:
    made = [node.args for node in methods(found) if node.name == "__init__"]
    return max((len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) - 1 for args in made), default=0)


def attributes(found: ast.ClassDef) -> int:
    """Number of names that its methods assign on self."""
    nodes = (node for method in methods(found) for node in ast.walk(method) if isinstance(node, ast.Attribute))
    written = (node for node in nodes if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name))
    return len({node.attr for node in written if isinstance(node.value, ast.Name) and node.value.id == "self"})


LIMITS: Mapping[str, tuple[Callable[[ast.ClassDef], int], int, Exceptions]] = {
    "arguments": (arguments, MOST_ARGUMENTS, ARGUMENTS),
    "methods": (lambda found: len(methods(found)), MOST_METHODS, METHODS),
    "attributes": (attributes, MOST_ATTRIBUTES, ATTRIBUTES),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_class_stays_below_the_limit_or_is_listed_with_its_reason(limit: str) -> None:
    _, most, exceptions = LIMITS[limit]
    large = {name: found[limit] for name, found in counted() if found[limit] > most}
    assert {name: number for name, number in large.items() if number > exceptions.get(name, (most, ""))[0]} == {}
    assert [name for name in exceptions if name not in large] == [], "no exception any more: strike its line"


def test_a_constructor_is_called_with_few_unnamed_arguments() -> None:
    found = set()
    for file in sorted(SERVICES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL:
                name = ast.unparse(node.func).rpartition(".")[2]
                starred = any(isinstance(one, ast.Starred) for one in node.args)
                if (name[0].isupper() or name == "cls") and not starred:
                    most = NEVER_NAMED.get(name, (MOST_POSITIONAL, ""))[0]
                    if len(node.args) > most:
                        found.add(f"{file.relative_to(SERVICES).as_posix()}:{node.lineno}: {name} {len(node.args)}")
    assert found == set()
