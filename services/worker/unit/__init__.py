"""A copy of one unit, from its assignment to its end."""
