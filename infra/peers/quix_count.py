"""The benchmark's running count on Quix Streams, at least once: one row out for each record in."""

import sys

from quixstreams import Application

servers, source, sink = sys.argv[1:]


def count(event, state):
    seen = state.get("count") or {"n": 0, "total": 0}
    seen = {"n": seen["n"] + 1, "total": seen["total"] + event["amount"]}
    state.set("count", seen)
    return {"user": event["user"], **seen}


app = Application(
    broker_address=servers,
    consumer_group=f"peer-{sink}",
    auto_offset_reset="earliest",
    state_dir="state",
    loglevel="WARNING",
)
rows = app.dataframe(app.topic(source, value_deserializer="json")).apply(count, stateful=True)
rows.to_topic(app.topic(sink, value_serializer="json"))
app.run()
