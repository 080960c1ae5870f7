"""Units of a job with a replication budget that get a replica that processes, and changes of that choice. Pure.

Source: MECHANISMS P14, docs/decisions/0146.
"""
