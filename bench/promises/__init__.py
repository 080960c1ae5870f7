"""Whether promised recovery times are kept: drills and kills of an adaptive unit, again and again."""
