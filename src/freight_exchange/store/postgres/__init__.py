"""A store in a PostgreSQL database, which the replicas of a bot share (extra `postgres`).

`store` opens it. `replica` has the lease of a replica and the fence of its writes, `term` the right to scan, and `seat`
the view of one replica. `history` recognises a database that has lost commits. `replica_sql`, `feed_sql`, `work` and
`work_sql` have the statements, `schema` the tables and their migration, and `copy` moves a file into the database.
"""
