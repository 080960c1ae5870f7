"""A process of the tests that dies costs the one test that it ran."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import BROKER, CONTAINERS, Together

BAD, NEXT, OTHER = (
    "tests/unit/test_bad.py::test_bad",
    "tests/unit/test_bad.py::test_next",
    "tests/unit/test_other.py::t",
)
COLLECTION = [BAD, NEXT, OTHER]


class Node:
    """A process as xdist sees it; given: the tests that it was told to run."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="node")

    def send_runtest_some(self, indexes: list[int]) -> None:
        assert indexes, "a process that is given nothing never answers"
        self.given += [COLLECTION[index] for index in indexes]

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduler(*nodes: Any) -> Together:
    config: Any = SimpleNamespace(
        getvalue={"tx": [f"{len(nodes)}*popen"]}.get, option=SimpleNamespace(loadscopereorder=False)
    )
    made = Together(config)
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, COLLECTION)
    return made


def test_the_test_that_ends_a_process_is_not_run_again_and_the_rest_of_its_file_is() -> None:
    first: Any = Node()
    second: Any = Node()
    tests = scheduler(first, second)
    tests.schedule()
    assert (first.given, second.given) == ([BAD, NEXT], [OTHER])
    replacement: Any = Node()
    assert tests.remove_node(first) == BAD
    tests.add_node(replacement)
    tests.add_node_collection(replacement, COLLECTION)
    tests.schedule()
    assert sorted(replacement.given + second.given) == [NEXT, OTHER]


def test_a_process_that_dies_in_its_last_test_leaves_nothing_to_others() -> None:
    first: Any = Node()
    second: Any = Node()
    tests = scheduler(first, second)
    tests.schedule()
    tests.mark_test_complete(first, 0)
    assert tests.remove_node(first) == NEXT
    replacement: Any = Node()
    tests.add_node(replacement)
    tests.add_node_collection(replacement, COLLECTION)
    tests.schedule()
    assert replacement.given == []
    assert replacement.shutting_down


def test_a_folder_stays_together_where_tests_share_a_cluster_and_else_each_file_goes_by_itself() -> None:
    node: Any = Node()
    split = scheduler(node)._split_scope
    assert split("tests/integration/local/test_a.py::t") == split("tests/integration/local/test_b.py::t")
    assert split("tests/integration/test_a.py::t") != split("tests/integration/test_b.py::t")
    assert split("tests/contract/test_a.py::t") != split("tests/contract/test_b.py::t")


def test_all_tests_with_containers_go_to_one_process_and_no_others_with_them() -> None:
    tests = Path(__file__).parents[1]
    marked = {file for file in tests.glob("integration/test_*.py") if "pytest.mark.docker" in file.read_text()}
    together = scheduler(Node())
    scopes = {
        file: together._split_scope(f"{file.relative_to(tests.parent)}::test_it")
        for file in tests.glob("integration/test_*.py")
    }
    assert len(marked) >= 4
    assert {file for file, scope in scopes.items() if scope == CONTAINERS} == marked
    others = [scope for scope in scopes.values() if scope not in (CONTAINERS, BROKER)]
    assert len(set(others)) == len(others)


def test_the_broker_of_the_session_is_started_by_a_single_process() -> None:
    split = scheduler(Node())._split_scope
    asking = ("contract/test_readers.py", "contract/test_sealed.py", "integration/test_controller.py")
    assert {split(f"tests/{file}::t") for file in asking} == {BROKER}
    for file in ("contract/test_logins.py", "integration/test_hosts.py", "integration/local/test_main_job.py"):
        assert split(f"tests/{file}::t") != BROKER, f"{file} has a broker of its own"


def test_the_broker_of_the_session_is_refused_to_a_file_without_the_mark(request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.fail.Exception, match="its pytestmark lacks session_broker"):
        request.getfixturevalue("kafka")
