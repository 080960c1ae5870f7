"""What a user asks of a cluster: submit, control, feed, send again, or run a job here without one."""
