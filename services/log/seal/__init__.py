"""Seals on the cluster's own records, and the secret that they are made with."""
