"""The fidelity of a job's output while some of its units are gone, and the units that most need a replica. Pure.

Source: MECHANISMS P1 to P9.
"""
