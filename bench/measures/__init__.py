"""Measures: each answers one question about a running cluster, or one that it starts."""
