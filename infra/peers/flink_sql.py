"""Statements of Flink SQL, the last of which is a job that ends: a line `ready` before it, and one `done` behind it.

Checkpoints go to files, since those in memory fail beyond 5 MB. A job that fails is not begun again: Flink would try
for ever.
"""

import json
import os
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

jar, statements = sys.argv[1:]
with open(statements) as file:
    *before, job = json.load(file)
tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for name, value in {
    "pipeline.jars": f"file://{jar}",
    "parallelism.default": "1",
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.storage": "filesystem",
    "execution.checkpointing.dir": f"file://{os.getcwd()}/checkpoints",
    "table.local-time-zone": "UTC",
    "restart-strategy.type": "none",
}.items():
    tables.get_config().set(name, value)
for one in before:
    tables.execute_sql(one)
tables.explain_sql(job)
print("ready", flush=True)
found = tables.execute_sql(job)
found.wait()
print("done", flush=True)
