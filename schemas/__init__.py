"""Records and names that cross a process boundary: jobs, plans, frames, cuts, assignments, heartbeats, topics."""
