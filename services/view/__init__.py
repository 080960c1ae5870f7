"""The state of a cluster and its jobs, folded from their topics. It changes nothing."""
