"""Faust: records reach a core in the event loop of the Faust stream library."""
