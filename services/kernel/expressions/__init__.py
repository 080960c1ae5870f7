"""Expressions of a job file."""
