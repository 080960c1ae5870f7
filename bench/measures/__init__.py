"""Measures: each asks one question of a cluster that is up, or of one that it starts."""
