"""A cluster of containers, measured: from its build to the first result, restarted worker by worker, struck."""
