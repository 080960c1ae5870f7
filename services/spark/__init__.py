"""Hosts heavy operators on Spark Structured Streaming."""
