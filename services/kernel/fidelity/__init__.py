"""Fidelity of a job's output while some of its units are gone, and the units that are worth a replica. Pure.

Source: MECHANISMS P1 to P9.
"""
