"""Audit of a job: its results are computed again and compared with the rows in its sinks."""
