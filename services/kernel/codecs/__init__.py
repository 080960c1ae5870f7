"""Encoding and decoding of rows: records of users' topics, frames, keys."""
