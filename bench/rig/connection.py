"""Time until a reader brings the first record of a partition, by how well it was prepared (MECHANISMS H2) and by the
time for which the broker holds a request.

`python -m bench.rig.connection`: an embedded broker, a topic of its own for each try, and a reader that always has
another partition to fetch, as a worker's has.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.reader import WAIT_MS, KafkaReader
from holdfast.services.log.protocol import Appender, Reader
from holdfast.services.node.kafka.broker import EmbeddedKafka

TRIES, RECORDS, AT = 25, 100, 50
SETTLED_S, MOST_S = 3.0, 5.0
BEATS, EVENTS = Partition("beats", 0), Partition("events", 0)
HOWS = ("not prepared", "connected early")
WAITS_MS = (WAIT_MS, 500)


def main() -> None:
    broker = EmbeddedKafka(Path(tempfile.mkdtemp(prefix="connection-")))
    broker.start()
    try:
        log = KafkaLog(broker.bootstrap_servers, None, "bench")
        log.create([TopicSpec(BEATS.topic), TopicSpec(EVENTS.topic)])
        for wait_ms, how in itertools.product(WAITS_MS, HOWS):
            reader = KafkaReader(Cluster(broker.bootstrap_servers), f"reader-{wait_ms}", wait_ms)
            took = sorted(_measure(log, reader, f"{how}, held for {wait_ms} ms"))
            most = f"9 of 10 within {took[len(took) * 9 // 10]:.1f} ms"
            print(f"{how}, requests held for {wait_ms} ms: median {statistics.median(took):.1f} ms, {most}")
        log.close()
    finally:
        broker.stop()


def _measure(log: KafkaLog, reader: Reader, how: str) -> list[float]:
    name = how.replace(" ", "-").replace(",", "")
    partitions = [Partition(f"{name}-{number}", 0) for number in range(TRIES)]
    log.create([TopicSpec(partition.topic) for partition in partitions])
    writer = log.appender("writer")
    for partition in partitions:
        for _ in range(RECORDS):
            writer.append(partition, b"record")
    writer.flush(30)
    reader.assign(log.offsets([BEATS, EVENTS], "end"))
    if how.startswith(HOWS[1]):
        reader.assign(dict.fromkeys(partitions, 0))
        reader.pause(partitions)
    until_s = time.monotonic() + SETTLED_S
    while time.monotonic() < until_s:
        reader.poll(0.05)
    took = [_first_ms(partition, writer, reader) for partition in partitions]
    reader.close()
    return took


def _first_ms(partition: Partition, writer: Appender, reader: Reader) -> float:
    for _ in range(10):  # assignments and heartbeats come all the time
        writer.append(BEATS, b"beat")
        writer.poll()
        reader.poll(0.01)
    began_s = time.monotonic()
    reader.assign({partition: AT})
    writer.append(EVENTS, b"copy-running")  # as a copy does that opens its inputs
    while time.monotonic() - began_s < MOST_S:
        writer.poll()
        if any(chunk.partition == partition and chunk.messages for chunk in reader.poll(0.005)):
            break
    took_ms = (time.monotonic() - began_s) * 1000
    reader.unassign([partition])
    return took_ms


if __name__ == "__main__":
    main()
