"""The processes of a cluster on one machine: supervisor, embedded brokers, and their requirements."""
