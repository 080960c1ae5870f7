"""Faust: records reach a core in the event loop of the frame's stream library."""
