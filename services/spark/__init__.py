"""Hosts the Spark operators of jobs, on Spark Structured Streaming."""
