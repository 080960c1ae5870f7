"""Logs that decide, each folded the same way by every reader: plans, assignments, cuts, commits, checkpoints."""
