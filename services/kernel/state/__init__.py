"""The keyed state of a unit, and the image below it."""
