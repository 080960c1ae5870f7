"""Audit of a job: its results are computed again and compared with what the sinks hold."""
