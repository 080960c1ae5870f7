"""Names of the operators that replace a query."""

MOST_LETTERS = 48
"""Most characters of the name of the query's operator in these names."""
