"""A single service of a cluster, as the first process of a container that holds nothing else.

It waits until Kafka takes connections, and then is the parent that PROTOCOL 5 asks for: it holds the lifeline,
reports the end of its process to `heartbeats`, starts it again, and hands a request to stop on. All of that is the
supervisor's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.services.diagnostics.service_log import keep_printing
from holdfast.services.log.seal.private import keep_private
from holdfast.services.node.daemon import stop_on_signals
from holdfast.services.node.machine.messages import say
from holdfast.services.node.members.service import Service
from holdfast.services.node.settings import Settings
from holdfast.services.node.start import Stopped
from holdfast.services.node.supervisor import Supervisor

LOOK_AGAIN_S = 0.5
SAID_AGAIN_S = 30.0


def serve(service: Service, settings: Settings, unreached: Callable[[], str]) -> None:
    """Returns after a request to stop, when its process has ended.

    Args:
        unreached: why Kafka takes no connections, empty once it does.

    Raises:
        One of start.EXPECTED: it cannot start.
    """
    keep_private()
    keep_printing()
    supervisor = Supervisor(settings, 0, service=service)
    stop_on_signals(supervisor)
    try:
        _await(unreached, supervisor)
        supervisor.start()
    except Stopped:
        return
    where = f"Kafka at {settings.kafka}, host {supervisor.naming.host}, data in {settings.home}"
    say(f"{service} of cluster {settings.cluster} runs: {where}")
    supervisor.run()
    supervisor.stop()


def _await(unreached: Callable[[], str], supervisor: Supervisor) -> None:
    """Waits until the services are reached, and logs the reason of the wait now and then. Raises Stopped."""
    said_s = -SAID_AGAIN_S
    while why := unreached():
        if time.monotonic() - said_s > SAID_AGAIN_S:
            said_s = time.monotonic()
            say(f"waits: {why}")
        if supervisor.asked_to_stop(LOOK_AGAIN_S):
            raise Stopped
