"""Which units are out, for readers of tentative results: begun, and over once the unit has recovered."""
