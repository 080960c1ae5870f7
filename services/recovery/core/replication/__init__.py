"""Choice of the units with a replica that processes, for jobs with a replication budget, and changes of that choice.
Pure.

Source: MECHANISMS P14, docs/decisions/0146.
"""
