"""Fleet: the replicas of a bot that share one store.

`membership` has the seat of a replica and its lease, `term` the right to scan, and `adoption` takes over the work of
replicas that have ended. `follower_login` logs in a replica that does not scan, `exchange_reach` pauses the claims of
one that is cut off from the exchange, and `loss_log` logs lost seats.
"""
