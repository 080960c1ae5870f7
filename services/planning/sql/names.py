"""Names of the operators that a query becomes."""

MOST_LETTERS = 48
"""So much of the name of the query's operator is kept in them."""
