"""Common part of every host of units, a worker and a Spark driver: it follows decisions, sends heartbeats, ends."""
