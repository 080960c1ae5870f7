"""Decisions of a Spark driver, pure."""
