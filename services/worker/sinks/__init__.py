"""Sink tasks: transactions, with the delivered position in them."""
