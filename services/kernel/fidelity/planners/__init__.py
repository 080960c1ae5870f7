"""Planners of replicas: the best plan, a ranking of single units, and the search that knows the structure."""
