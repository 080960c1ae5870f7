"""Other stream processors, doing what ours does in the same run."""
