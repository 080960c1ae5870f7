"""Deliberate bugs of the protocol, each a switch: the simulation must catch every one of them.

A bug replaces one method while a cluster runs; the checkers afterwards work with the true one. What stands in
docs/protocol.md as needed has a bug here that leaves it out; catalogue.py lists them.
"""
