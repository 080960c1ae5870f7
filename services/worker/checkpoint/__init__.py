"""Checkpoints of the units here: written, applied, restored, trimmed, and when."""
