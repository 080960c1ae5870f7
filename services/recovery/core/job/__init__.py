"""A whole job: what it wants of its units, and in which order they go."""
