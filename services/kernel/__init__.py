"""The stream kernel, pure: batches, cuts, state, checkpoints, operators."""
