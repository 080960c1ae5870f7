"""Check of promised recovery times: drills and kills of an adaptive unit, again and again."""
