"""Parts of `tools/fleet_faults.py`.

A replica runs `tools/lib/fleet_replica.py`, which stays in the place where earlier revisions have it.
"""
