"""Admits jobs: validates and plans them, creates their topics, states their goals, and ends them."""
