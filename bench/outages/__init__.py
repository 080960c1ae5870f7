"""Outages of units of a job with tentative results, on real clusters. Run by ./scripts/bench outages."""
