"""Rows to bytes and back: records of users' topics, frames, keys."""
