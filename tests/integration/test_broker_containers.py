"""Three brokers in containers, each struck in every way of `./scripts/campaign brokers`: one round of it.

So fewer than min.insync.replicas are left for a while, a broker is slow rather than dead, a log loses its end, and the
coordinator of transactions moves. Needs a Docker engine.
"""

from __future__ import annotations

import random

import pytest

from bench.compose.project import no_engine
from holdfast.schemas.topics import TopicSpec
from tests.campaign.broker_containers import brokers_of, container_cluster
from tests.campaign.broker_faults import FAULTS, BrokerFaults
from tests.campaign.broker_rounds import BrokerRound
from tests.campaign.kills import Strike
from tests.campaign.plain import TOPIC, Plain

pytestmark = [
    pytest.mark.docker,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1800),
]


def test_every_row_is_there_once_whatever_happens_to_brokers(tmp_path_factory: pytest.TempPathFactory) -> None:
    if why := no_engine():
        pytest.skip(why)
    chance = random.Random(0)
    with container_cluster(tmp_path_factory.mktemp("brokers")) as cluster, brokers_of(cluster, chance) as brokers:
        assert not brokers.cannot
        cluster.log.create([TopicSpec(TOPIC, 1)])
        with Plain(brokers.bootstrap_servers) as plain:
            faults, wanted = BrokerFaults(brokers, chance), [Strike(fault) for fault in FAULTS]
            outcomes = BrokerRound(cluster, faults, plain, "sequences", "struck", chance).run(wanted, lambda: None)
    inexact = [str(one) for one in outcomes if not one.exact]
    assert not inexact, "\n".join(inexact)  # whole: the last words say what was waited for
    assert [one.point for one in outcomes if one.fired] == list(FAULTS)
