"""The checkpoints of the units here: writing, applying, restoring, trimming, and their schedule."""
