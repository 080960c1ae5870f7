"""What crosses a process boundary: jobs, plans, frames, cuts, assignments, heartbeats, topic names."""
