"""A unit's keyed state, and the image beneath it."""
