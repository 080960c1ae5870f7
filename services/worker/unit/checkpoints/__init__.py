"""The checkpoints of one copy: its runs, global checkpoints, trims, and the cost of a failure."""
