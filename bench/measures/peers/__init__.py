"""Other stream processors with the same work in the same run."""
