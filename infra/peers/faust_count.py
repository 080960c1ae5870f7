"""The benchmark's running count on Faust, at least once: one row out for each record in."""

import sys

import faust

servers, source, sink = sys.argv[1:]
app = faust.App(
    f"peer-{sink}",
    broker=f"kafka://{servers}",
    datadir="state",
    topic_disable_leader=True,
    web_enabled=False,
)
counts = app.Table("counts", default=lambda: [0, 0], partitions=1)
events = app.topic(source, value_serializer="json", key_type=bytes, partitions=1)
rows = app.topic(sink, value_serializer="json", key_type=bytes, partitions=1)


@app.agent(events)
async def count(stream):
    async for event in stream:
        n, total = counts[event["user"]]
        counts[event["user"]] = seen = [n + 1, total + event["amount"]]
        await rows.send(key=event["user"].encode(), value={"user": event["user"], "n": seen[0], "total": seen[1]})


sys.argv[1:] = ["worker", "--loglevel", "warn", "--without-web"]
app.main()
