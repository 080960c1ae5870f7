"""The table of one unit: from a sign to a move, its reason and its record."""
