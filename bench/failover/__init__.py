"""How long a unit is silent whose worker is killed or stalled, by scheme. Run by ./scripts/bench failover."""
