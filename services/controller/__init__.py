"""Admits jobs: validates, plans, creates their topics, places their units, and takes them down again."""
