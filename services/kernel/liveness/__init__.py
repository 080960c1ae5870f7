"""Which workers live: one judgement for everyone who asks."""
