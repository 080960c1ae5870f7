"""Facts about one unit: schemes, terms, standings, crashes, proofs, copies."""
