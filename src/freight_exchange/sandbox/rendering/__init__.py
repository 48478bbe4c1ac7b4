"""Records in the service's JSON, under a profile.

`renderer` writes each kind of record, `shapes` what all kinds share, `scalars` single values, and `envelope` the reply
around them. `codec` encodes and decodes JSON without loss.
"""
