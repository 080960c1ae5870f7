"""The same windowed query by Spark alone, from JSON to JSON, in a process of its own, until it is killed.

It prints the time at which the query started, milliseconds since 1970.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F

from holdfast.schemas.plans import SparkPlan
from holdfast.services.spark.kafka_options import source_options
from holdfast.services.spark.records import decoded
from holdfast.services.spark.session import open_session
from holdfast.services.spark.settings import SparkSettings


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("servers", "jars", "topic", "query", "partitions"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-alone-", dir=os.environ.get("HOLDFAST_HOME")))
    spark = open_session(SparkSettings(spark_jars=asked.jars), "alone", folder / "scratch")
    fields = {"user": "string", "amount": "int", "at": "timestamp"}
    plan = SparkPlan("alone", "", asked.topic, fields, {}, {}, event_time="at", unit_of_time="ms")
    first = dict.fromkeys(range(int(asked.partitions)), 0)
    options = source_options(asked.servers, asked.topic, first, {})
    given = decoded(plan.inputs[0], spark.readStream.format("kafka").options(**options).load(), "counted")
    given.withWatermark("at", "0 seconds").createOrReplaceTempView(plan.name)
    rows = spark.sql(asked.query).select(F.to_json(F.struct("*")).alias("value"))
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", asked.servers)
    writer = writer.option("topic", f"{asked.topic}-alone").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.outputMode("append").start()
    print(int(time.time() * 1000), flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
