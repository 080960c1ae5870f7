"""The batches of one copy: processed, compared with another copy's, or skipped."""
