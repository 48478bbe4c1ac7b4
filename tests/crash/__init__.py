"""Kills and faults in real processes: a watcher, a forwarder's bot, a shipper's bot, a fleet.

`python -m tests.crash PART --kills N --seed S` makes a campaign.
"""
