"""What every host of units does, a worker and a Spark driver: follow decisions, send heartbeats, end."""
