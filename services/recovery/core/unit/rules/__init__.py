"""Rules of one unit: each answers one question about a situation."""
