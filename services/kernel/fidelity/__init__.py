"""How good the output of a job is while some of its units are gone, and which units are worth a replica. Pure.

Source: MECHANISMS P1 to P9.
"""
