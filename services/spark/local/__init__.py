"""Spark in this process, without Kafka and without a driver's process: for `holdfast try` and `holdfast.testing`."""
