"""A sealed log is a Log: the contract holds with a seal on every record, in memory and on Kafka.

On Kafka with --long: in each run the contract of the log below holds there, struck/test_seal.py has a cluster with a
secret.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator

import pytest

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Log
from holdfast.services.log.seal.seal import Keyring
from holdfast.services.log.seal.sealed import SealedLog
from tests.contract import test_appenders, test_readers, test_topics, test_transactions

pytestmark = pytest.mark.session_broker

DIFFERS = {
    "test_a_record_comes_back_as_it_was_written",  # with one header more
    "test_a_transaction_over_two_topics_shows_all_rows",  # the same
    "test_keys_choose_the_partition_that_the_java_client_would",  # where a record is sealed its partition is named
}
globals().update({
    name: test
    for module in (test_topics, test_appenders, test_readers, test_transactions)
    for name, test in vars(module).items()
    if name.startswith("test_") and "log" in inspect.signature(test).parameters and name not in DIFFERS
})  # fmt: skip


class Everything(ClusterTopics):
    """Seals whatever the tests write."""

    def sealed(self, partition: Partition) -> bool:
        return True


@pytest.fixture(params=["memory", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    keyring = Keyring(["a secret of the contract"])
    if request.param == "memory":
        yield SealedLog(MemoryLog(lambda: time.time_ns() // 1_000_000), Everything(), keyring)
        return
    sealed = SealedLog(KafkaLog(request.getfixturevalue("kafka"), None, "sealed"), Everything(), keyring)
    yield sealed
    sealed.close()
