"""Faults: `catalogue` has their names, `fault_factory` makes their rules, `script` selects the rule for a call.

`mutations` has the changes that faults make to replies.
"""
