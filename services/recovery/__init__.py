"""Detects what fails and decides who takes over."""
