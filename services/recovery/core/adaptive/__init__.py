"""The adaptive scheme: what a takeover would take under each scheme, what each costs, and which one is chosen."""
