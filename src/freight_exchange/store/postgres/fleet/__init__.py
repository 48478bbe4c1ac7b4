"""Replicas of a fleet in the PostgreSQL store.

`replica` has the lease of a replica and the fence of its writes, `term` the right to scan, `work` the deliveries and
effects, and `seat` the view of one replica. `frozen_sessions` ends the database sessions of frozen replicas, and
`lock_log` describes who holds a lock. `replica_sql` and `work_sql` have the statements.
"""
