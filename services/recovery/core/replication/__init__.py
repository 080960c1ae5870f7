"""Which units of a job with a replication budget get a replica that processes, and when that changes. Pure.

Source: MECHANISMS P14, docs/decisions/0146.
"""
