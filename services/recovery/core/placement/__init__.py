"""Where copies go."""
