"""A whole job: its goals for its units, and their order."""
