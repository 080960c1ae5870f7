"""Silence of a unit whose worker is killed or stalled, by scheme. Run by ./scripts/bench failover."""
