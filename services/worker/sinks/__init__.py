"""Sink tasks: transactions, and the position that they carry."""
