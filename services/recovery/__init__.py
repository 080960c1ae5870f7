"""Detects failures and decides on takeovers."""
