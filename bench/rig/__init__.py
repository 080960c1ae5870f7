"""The rig: a cluster to measure, its jobs, feeds, readers and figures."""
