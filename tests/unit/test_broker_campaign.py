"""The campaign of brokers, as far as it goes without any: which faults it makes, of whom, and of which jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.campaign import broker_processes
from tests.campaign.broker_faults import FAULTS, BrokerFaults
from tests.campaign.broker_rounds import job_of, kinds
from tests.campaign.brokers import impossible

TOPICS = ["job-in"]


class Three:
    """Brokers that note what is done to them."""

    bootstrap_servers, nodes, cannot = "localhost:1", (1, 2, 3), frozenset[str]()

    def __init__(self) -> None:
        self.done: list[tuple[str, tuple[int, ...]]] = []
        self.within: list[str] = []

    def run(self) -> bool:
        return True

    def controller(self) -> int:
        return 2

    def kill(self, *numbers: int) -> None:
        self.done.append(("kill", numbers))

    def restart(self, number: int) -> object:
        self.done.append(("restart", (number,)))
        return lambda: True

    def cut_tail(self, number: int, topics: list[str]) -> None:
        assert topics == TOPICS
        self.done.append(("cut_tail", (number,)))

    def frozen(self, number: int) -> AbstractContextManager[None]:
        return self._for_a_while("frozen", number)

    def slow(self, number: int) -> AbstractContextManager[None]:
        return self._for_a_while("slow", number)

    def cut_off(self, number: int) -> AbstractContextManager[None]:
        return self._for_a_while("cut_off", number)

    @contextmanager
    def _for_a_while(self, what: str, number: int) -> Iterator[None]:
        self.within.append(what)
        yield
        self.within.remove(what)
        self.done.append((what, (number,)))


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_does_what_its_name_says(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, lasted = Three(), list[tuple[float, list[str]]]()
    faults = BrokerFaults(brokers, random.Random(0))  # type: ignore[arg-type]
    monkeypatch.setattr(faults, "_leader", lambda topics: 3 if topics == TOPICS else 1)
    monkeypatch.setattr(faults, "healthy", lambda: True)
    faults.strike(fault, TOPICS, lambda seconds: lasted.append((seconds, list(brokers.within))))
    what, hit = {
        "kill-one": ("kill", 1), "kill-leader": ("kill", (3,)), "kill-coordinator": ("kill", (1,)),
        "kill-controller": ("kill", (2,)), "kill-two": ("kill", 2), "freeze-one": ("frozen", 1),
        "freeze-leader": ("frozen", (3,)), "slow-one": ("slow", 1), "restart-one": ("restart", 1),
        "rolling": ("restart", 3), "partition-one": ("cut_off", 1), "cut-tail": ("cut_tail", 1),
    }[fault]  # fmt: skip
    assert {name for name, _ in brokers.done} == {what}
    numbers = [number for _, some in brokers.done for number in some]
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) == hit if isinstance(hit, int) else tuple(numbers) == hit
    if what in ("frozen", "slow", "cut_off"):
        ((seconds, within),) = lasted
        assert within == [what]
        assert 2.0 <= seconds <= 6.0


def test_the_obstacle_to_whole_brokers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Partition:
        def __init__(self, leader: int, isrs: list[int]) -> None:
            self.leader, self.isrs, self.replicas = leader, isrs, [1, 2, 3]

    class Admin:
        def __init__(self, brokers: int, *partitions: Partition) -> None:
            self.brokers = dict.fromkeys(range(brokers))
            self.topics = {"job-in": self}
            self.partitions = dict(enumerate(partitions))

        def list_topics(self, timeout: float) -> Admin:
            return self

    brokers = Three()
    faults = BrokerFaults(brokers, random.Random(0))  # type: ignore[arg-type]

    def lacking(found: Admin) -> str:
        monkeypatch.setattr(faults, "_admin", found)
        return faults.lacking()

    whole = Partition(1, [3, 2, 1])
    assert lacking(Admin(3, whole)) == ""
    assert faults.healthy()
    assert lacking(Admin(2, whole)) == "2 of 3 brokers are known"
    assert (
        lacking(Admin(3, whole, Partition(2, [2, 3])))
        == "1 partitions, such as job-in[1] is led by 2, in sync [2, 3] of [1, 2, 3]"
    )
    assert lacking(Admin(3, Partition(-1, [1, 2, 3]))).startswith("1 partitions, such as job-in[0] is led by -1")
    assert not faults.healthy()
    monkeypatch.setattr(brokers, "run", lambda: False)
    assert lacking(Admin(3, whole)) == "not every broker runs"


def test_strikes_that_processes_cannot_have_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_processes, "can_partition", lambda: False)
    assert set(impossible(list(FAULTS), containers=False)) == {"partition-one", "cut-tail"}
    assert impossible(list(FAULTS), containers=True) == {}


def test_images_have_no_code_of_ours() -> None:
    assert set(kinds()) - set(kinds(images=True)) == {"changes"}
    chance = random.Random(0)
    assert not [kind for kind in kinds(images=True) if "python:" in job_of(kind, chance).text.template]
