"""The line of one copy: tentative batches on a fork, while upstream units are out."""
