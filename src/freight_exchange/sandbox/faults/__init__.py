"""Faults: `catalogue` names them, `fault_factory` makes rules of them, `script` picks the rule that strikes a call.

`mutations` are the changes that faults make to a reply.
"""
