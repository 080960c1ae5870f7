"""Planners of replicas: the best plan, a ranking of single units, and the structure-aware search."""
