"""Outages of units, for readers of tentative results: begun, and over once the unit has recovered."""
