"""JSON of the service for records, with the quirks of a profile.

`renderer` writes each kind of record, `shapes` the parts that all kinds share, `scalars` single values, and `envelope`
the reply around them. `codec` encodes and decodes JSON without loss.
"""
