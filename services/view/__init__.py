"""The state of a cluster and its jobs, folded from their topics, without changes to the cluster."""
