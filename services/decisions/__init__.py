"""Logs that decide, each folded in the same way by every reader: plans, assignments, cuts, commits, checkpoints."""
