"""Seals on the cluster's own records, and the secret of the seals."""
