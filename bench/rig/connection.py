"""Time until a reader brings the first record of a partition, by how well it was prepared: MECHANISMS H2.

`python -m bench.rig.connection`: an embedded broker, a topic of its own for each try, and a reader that always has
another partition to fetch, as a worker's has.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.protocol import Appender, Reader
from holdfast.services.node.kafka.broker import EmbeddedKafka

TRIES, RECORDS, AT = 25, 100, 50
SETTLED_S, MOST_S = 3.0, 5.0
BEATS, EVENTS = Partition("beats", 0), Partition("events", 0)
HOWS = ("not prepared", "connected early")


def main() -> None:
    broker = EmbeddedKafka(Path(tempfile.mkdtemp(prefix="connection-")))
    broker.start()
    try:
        log = KafkaLog(broker.bootstrap_servers, None, "bench")
        log.create([TopicSpec(BEATS.topic), TopicSpec(EVENTS.topic)])
        for how in HOWS:
            took = sorted(_measure(log, how))
            most = f"9 of 10 within {took[len(took) * 9 // 10]:.1f} ms"
            print(f"{how}: median {statistics.median(took):.1f} ms of {len(took)}, {most}")
        log.close()
    finally:
        broker.stop()


def _measure(log: KafkaLog, how: str) -> list[float]:
    partitions = [Partition(f"{how.replace(' ', '-')}-{number}", 0) for number in range(TRIES)]
    log.create([TopicSpec(partition.topic) for partition in partitions])
    writer, reader = log.appender("writer"), log.reader("reader")
    for partition in partitions:
        for _ in range(RECORDS):
            writer.append(partition, b"record")
    writer.flush(30)
    reader.assign(log.offsets([BEATS, EVENTS], "end"))
    if how == "connected early":
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
