"""Nexmark: a stream of persons, auctions and bids, and the queries over it as job files."""
