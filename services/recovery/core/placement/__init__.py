"""Places of copies."""
