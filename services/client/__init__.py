"""Commands of a user to a cluster: submit, control, feed, send again, or run a job here without one."""
