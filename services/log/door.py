"""The only way in which a process opens its Log: Kafka, sealed if the cluster has a secret."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from holdfast.schemas import events
from holdfast.schemas.events import Event
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import HoldfastError, Retriable
from holdfast.services.log.kafka.client_settings import client_settings
from holdfast.services.log.kafka.durability import Durability
from holdfast.services.log.kafka.first_answers import await_answers
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.waiting_log import WaitingLog
from holdfast.services.log.patience import Patience
from holdfast.services.log.protocol import Log, Message
from holdfast.services.log.seal.seal import Fault, Keyring, Place, is_sealed
from holdfast.services.log.seal.sealed import Gate, SealedLog
from holdfast.services.log.seal.secret import OFF, SECRET, SECRET_FILE, is_said, keyring

FIRST_STRETCH, LOOKED_AT = 64, 16_384
"""Events checked at the end of the log, first and at most; one event of the cluster suffices among strangers' ones."""
_SIGNED = (
    "the records of cluster '{prefix}' are sealed with a secret, and {without}: set the one of the cluster, with "
    f"{SECRET_FILE} or {SECRET}"
)
_TO_OFF = f". For a cluster that is to continue without seals: {SECRET}={OFF} for all of its processes"
_BARE = (
    "the records of cluster '{prefix}' carry no seal: the cluster ran without a secret until now. "
    "Put `,off` behind the secret until the jobs from before have ended"
)


_log = get_logger()


class SecretDiffers(HoldfastError):
    """This process and its cluster would not accept each other's records, because their secrets differ."""


class KafkaDoor(SealedLog):
    """A SealedLog on Kafka, with the methods that only Kafka has.

    reporter: the name of the service that reports refused records; empty for a process that reports none.
    """

    def __init__(self, log: KafkaLog, topics: ClusterTopics, keys: Keyring, reporter: str = "") -> None:
        self._kafka = log
        self._events = Partition(topics.events, 0)
        self._reporter = reporter
        super().__init__(log, topics, keys, self._report if reporter else _say_nothing)

    def start_group(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Sets the positions at which a consumer group without members begins to read. Raises Retriable."""
        self._kafka.start_group(group, positions)

    def _report(self, event: Event) -> None:
        """Publishes the event in a thread of its own: the reader that found the record must not wait."""
        _log.warning(event.kind, detail=event.detail)
        threading.Thread(target=self._publish, args=(event,), name="refusals", daemon=True).start()

    def _publish(self, event: Event) -> None:
        appender = self.appender("refusals")
        appender.append(self._events, events.encode(replace(event, worker=self._reporter)))
        appender.close()


def _say_nothing(event: Event) -> None:
    """Publishes nothing: commands and supervisors leave reports of refusals to the services."""


def open_log(bootstrap_servers: str, prefix: str, name: str, *, report: bool = False) -> KafkaLog | KafkaDoor:
    """Opens the log of a process of the cluster `prefix`, with the client settings and secret of its environment.

    Args:
        report: true if a refused record becomes an event of the cluster, as for services.

    Raises:
        SecretUnusable: the settings of the secret are wrong.
    """
    keys, log = keyring(), KafkaLog(bootstrap_servers, client_settings(), name)
    return log if keys is None else KafkaDoor(log, ClusterTopics(prefix), keys, name if report else "")


def open_cluster(
    bootstrap_servers: str, prefix: str, name: str, durability: Durability | None = None
) -> tuple[KafkaLog | KafkaDoor, ClusterTopics]:
    """Opens the log of a service and creates missing topics of the cluster. Returns both. Raises Retriable."""
    topics = ClusterTopics(prefix)
    log = open_log(bootstrap_servers, prefix, name, report=True)
    log.create((durability or Durability()).of(topics.specs()))
    await_answers(log, topics)
    look_at_secret(log, topics)
    return log, topics


def open_waiting(bootstrap_servers: str, prefix: str, name: str, patience: Patience) -> Log:
    """Opens the log of a command, which waits for absent leaders and does not report refused records: services do.

    Raises SecretUnusable.
    """
    keys, log = keyring(), WaitingLog(KafkaLog(bootstrap_servers, client_settings(), name), patience)
    return log if keys is None else SealedLog(log, ClusterTopics(prefix), keys, _say_nothing)


def expect_secret(log: Log, topics: ClusterTopics) -> None:
    """Checks that this process accepts the last events of the cluster, and that the cluster would accept its events.

    With different secrets the process would wait forever, because each side drops the other's records. Raises
    SecretDiffers, Retriable.
    """
    partition = Partition(topics.events, 0)
    raw = log.raw if isinstance(log, SealedLog) else log
    place = log.gate.place(partition) if isinstance(log, SealedLog) else None
    if place is None and is_said():
        return  # the settings turn seals off
    start, end = (raw.offsets([partition], at)[partition] for at in ("start", "end"))
    stretch, begin, faults = FIRST_STRETCH, end, set[Fault | None]()
    while begin > start and stretch <= (LOOKED_AT if place is not None else FIRST_STRETCH):
        begin, stretch = max(start, end - stretch), stretch * 4
        faults = {_fault(place, message) for message in raw.scan(partition, begin)}
        if None in faults and place is not None:
            return  # one record of the cluster shows it; without a secret no record may carry a seal
    if faults <= {None}:
        return
    if Fault.FOREIGN in faults:
        without = "this process has another one" if place is not None else "this process has none"
        raise SecretDiffers(_SIGNED.format(prefix=topics.prefix, without=without) + ("" if place else _TO_OFF))
    raise SecretDiffers(_BARE.format(prefix=topics.prefix))


def look_at_secret(log: Log, topics: ClusterTopics) -> None:
    """Checks the secret as `expect_secret` and logs a difference: a stranger's events must not
    stop a service's start.
    """
    try:
        expect_secret(log, topics)
    except SecretDiffers as error:
        _log.error("the cluster's secret differs", cluster=topics.prefix, reason=str(error))
    except Retriable as error:
        _log.warning("nobody knows whether the cluster's secret differs", cluster=topics.prefix, reason=str(error))


def refused_by(log: Log) -> Callable[[], dict[str, int]]:
    """Returns a function that counts, by topic, the records refused for lack of the cluster's seal."""
    return log.refusals.most if isinstance(log, SealedLog) else dict


def gate(log: Log) -> Gate | None:
    """The check of seals for processes with a Kafka client of their own; None where every record counts."""
    return log.gate if isinstance(log, SealedLog) else None


def _fault(place: Place | None, message: Message) -> Fault | None:
    if place is not None:
        return place.fault(message.headers(), message.key(), message.value())
    return Fault.FOREIGN if is_sealed(message.headers()) else None
