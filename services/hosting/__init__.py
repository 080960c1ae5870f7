"""The common part of every host of units, a worker or a Spark driver: decisions, heartbeats, and the end of the
process."""
