"""Whole jobs over real recordings, compared row by row with the same queries computed in one piece by polars."""
