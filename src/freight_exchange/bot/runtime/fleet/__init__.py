"""Fleet: the replicas of a bot that share one store.

`membership` has the seat of a replica and its lease, `term` the right to scan, and `adoption` takes over the work of
replicas that have ended.
"""
