"""Statements of Flink SQL, the last of which is a job that ends: a line `ready` before it, and one `done` behind it."""

import json
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
    "table.local-time-zone": "UTC",
}.items():
    tables.get_config().set(name, value)
for one in before:
    tables.execute_sql(one)
tables.explain_sql(job)
print("ready", flush=True)
found = tables.execute_sql(job)
found.wait()
print("done", flush=True)
