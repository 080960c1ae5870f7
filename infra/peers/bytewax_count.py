"""The benchmark's running count on Bytewax, with recovery: one row out for each record in."""

import json
import sys
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

servers, source, sink = sys.argv[1:]


def parsed(message):
    return message.key.decode(), json.loads(message.value)


def counted(seen, event):
    n, total = seen or (0, 0)
    seen = n + 1, total + event["amount"]
    return seen, seen


def row(counted):
    user, (n, total) = counted
    return KafkaSinkMessage(user.encode(), json.dumps({"user": user, "n": n, "total": total}).encode())


flow = Dataflow("peer")
messages = op.input("messages", flow, KafkaSource([servers], [source], tail=True))
counts = op.stateful_map("counts", op.map("parsed", messages, parsed), counted)
kafka.output("rows", op.map("row", counts, row), brokers=[servers], topic=sink)

Path("state").mkdir()
init_db_dir(Path("state"), 1)
cli_main(flow, workers_per_process=1, recovery_config=RecoveryConfig("state", timedelta(0)))
