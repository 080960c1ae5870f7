"""Which units get a replica: the best plan, a ranking of single units, and the search that knows the structure."""
