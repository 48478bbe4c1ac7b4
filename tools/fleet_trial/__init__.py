"""Parts of `tools/fleet_faults.py`.

What a replica runs is `tools/lib/fleet_replica.py`, where earlier revisions have it.
"""
