"""The adaptive scheme: the duration of a takeover under each scheme, the cost of each, and the choice."""
