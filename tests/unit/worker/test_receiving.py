"""A suspended copy that does not receive is connected to its inputs: assigned and paused (MECHANISMS H2)."""

from __future__ import annotations

from holdfast.schemas.assignments import Flags
from holdfast.schemas.topics import Partition
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, check, orders

COLD = Flags(state="synced", receive=False, process=False, send=False, commit=False, checkpoint_target=True)


def test_a_suspended_copy_is_connected_to_what_it_will_read_and_takes_over_from_there() -> None:
    fed, made = orders(200), MemoryCluster(JOB)
    one, two = made.start("one"), made.start("two")
    made.place({unit: [one, (two, COLD)] for unit in made.units})
    for number, order in enumerate(fed[:100]):
        made.feed("orders", [order], number % 2)
    made.turn(1_500)
    reader = two._data
    connected = set(reader._connected)
    wanted = {p for copy in one._copies.here.values() if copy.running for p in copy.running.intake.positions()}
    assert connected == wanted >= {Partition("orders", 0), Partition("orders", 1)}
    assert not connected & set(reader._subscriptions), "nothing of them is read"
    made.kill("one")
    made.place({unit: [two] for unit in made.units})
    for number, order in enumerate(fed[100:]):
        made.feed("orders", [order], number % 2)
    made.run_to_end()
    check(made.rows, fed)
