"""The leader that reads a user's topic sees whether it keeps what a recovery would read again, on a log in memory."""

from __future__ import annotations

import pytest

from holdfast.schemas import events
from holdfast.schemas.job_settings import FaultTolerance
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.hosting.lags import AT_RISK, of_lags
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.sources.retention_watch import LOOK_MS
from tests.scenario.test_checkpoint_policies import job
from tests.scenario.test_global_checkpoints import Aligned

LOOKS = int(LOOK_MS) + 500
HOUR_MS = 3_600_000
NONE = {"orders-0": 0.0, "orders-1": 0.0}


class Kept(Aligned):
    """It is fed for a second, and keeps its global checkpoint; then nothing comes."""

    def __init__(self, buffering: str = "source", policy: str = "aligned") -> None:
        made = job(policy, every_batches=5).replace("{default", f"{{buffering: {buffering}, default")
        super().__init__(made=made, count=2_000)
        self.keeps(HOUR_MS)
        self.run(50)

    def keeps(self, ms: int, **more: str) -> None:
        self.log.configure([TopicSpec("orders", 2, {"cleanup.policy": "delete", "retention.ms": str(ms), **more})])

    def told(self) -> list[tuple[str, str]]:
        """Of the unit that reads the first partition."""
        found = [events.decode(one.value() or b"") for one in self.log.scan(Partition(self.cluster.events, 0))]
        return [(one.kind, one.detail) for one in found if one.kind.startswith("retention") and one.unit == "orders-0"]

    @property
    def risk(self) -> set[str]:
        return {copy.risk for worker in self.workers.values() for copy in worker.copies() if copy.risk}

    def at_risk(self) -> dict[str, float]:
        """By unit."""
        (worker,) = self.workers.values()
        found = [one for one in of_lags(self.log, worker.taken)() if one.metric is AT_RISK]
        return {dict(zip(AT_RISK.labels, one.labels, strict=True))["unit"]: one.value for one in found}


def test_a_topic_that_keeps_its_records_long_enough_is_no_risk() -> None:
    cluster = Kept()
    cluster.turn(2 * LOOKS)
    assert (cluster.told(), cluster.risk) == ([], set())
    assert cluster.at_risk() == NONE


def test_a_retention_that_somebody_shortens_is_reported_and_so_is_its_end() -> None:
    cluster = Kept()
    cluster.turn(LOOKS)
    cluster.keeps(30_000)
    cluster.turn(LOOKS)
    (shortened, detail), (short, why) = cluster.told()
    assert (shortened, short) == ("retention-shortened", "retention-short")
    assert detail == "topic orders of source orders: retention.ms was 3600000, is 30000"
    assert "retention.ms is 30000, and a recovery may wait 40 s for workers" in why
    assert cluster.risk == {why}
    cluster.keeps(HOUR_MS)
    cluster.turn(LOOKS)
    assert (cluster.told()[-1][0], cluster.risk) == ("retention-suffices", set())


def test_records_that_wait_for_a_global_checkpoint_until_they_are_nearly_too_old_are_at_risk() -> None:
    """No global checkpoint is complete for a minute; records are kept for 90 s, and a recovery may wait for 40 s."""
    cluster = Kept()
    cluster.keeps(90_000)
    cluster.turn(LOOKS)
    assert cluster.risk == set()
    cluster.run(25, states=False)
    cluster.turn(65_000)
    assert cluster.told()[-1][0] == "retention-short"
    assert min(cluster.at_risk().values()) > 0
    cluster.state()
    cluster.run(25)
    cluster.turn(LOOKS)
    assert (cluster.told()[-1][0], cluster.at_risk()) == ("retention-suffices", NONE)


def test_deleted_records_that_a_recovery_needs_are_reported_whatever_the_settings_say() -> None:
    cluster = Kept()
    cluster.run(25, states=False)
    cluster.log.trim(cluster.log.offsets([Partition("orders", 0)], "end"))
    cluster.turn(LOOKS)
    ((kind, why),) = cluster.told()
    assert kind == "retention-short"
    assert "since the newest global checkpoint are deleted: a recovery would fail" in why


@pytest.mark.parametrize(("buffering", "policy"), [("upstream", "aligned"), ("source", "sweep")])
def test_nobody_watches_where_nothing_is_read_again_from_a_global_checkpoint(buffering: str, policy: str) -> None:
    cluster = Kept(buffering, policy)
    cluster.keeps(1_000)
    cluster.turn(LOOKS)
    assert (cluster.told(), cluster.risk, cluster.at_risk()) == ([], set(), {})


def test_a_kafka_that_does_not_answer_changes_nothing_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, asked = Kept(), []

    def config(self: MemoryLog, topic: str) -> dict[str, str]:
        asked.append(topic)
        raise Retriable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryLog, "config", config)
        cluster.turn(3 * LOOKS)
    assert len(asked) == 6, "two units have looked three times"
    assert cluster.told() == []
    cluster.keeps(1_000)
    cluster.turn(LOOKS)
    assert [kind for kind, _ in cluster.told()] == ["retention-short"]


def test_the_wait_is_what_the_settings_say_by_default() -> None:
    settings = FaultTolerance()
    assert settings.correlated_failure.within_s + settings.fail_stop_timeout_s == 40
