"""The expressions of a job file."""
